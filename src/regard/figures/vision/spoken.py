"""5.3d: deck 001's remark that encoder and decoder may be of different kinds: a ViT sees two shapes, a Transformer's
decoder says what they are and how they lie, and looks at patches while it does.

Images of 32 x 32 are drawn afresh for every batch: two shapes of some colour before a dim noise. The caption is fixed
by the image: of two that are rather side by side the left one is named first, else the upper one. The encoder has one
layer. With three it gathered what it saw in patches of the background, and there the decoder read it (at the name of
the second shape; 76 % of the captions were right after 900 steps): where a deep net looks need not be where things are.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import regard
from regard import style
from regard.figures.figure import Check, Numbers, above, below, plain, seeded
from regard.figures.toys import fit
from regard.model import Model
from regard.models.captioner import Captioner
from regard.nn.cache import Cache

TITLE = "From patches to words"
DECKS = ("001",)
CLAIM = "A decoder that looks at a ViT's patches says what is in an image, and looks at a shape when it names it."
COST = 130.0
SEED = 0

SIDE, PATCH = 32, 4
COLOURS = {"red": (0.86, 0.2, 0.2), "green": (0.2, 0.65, 0.3), "blue": (0.25, 0.35, 0.9), "yellow": (0.95, 0.8, 0.2)}
SHAPES = ("square", "disc", "triangle")
RELATIONS = ("left of", "above")
WORDS = ("<begin>", "<end>", *COLOURS, *SHAPES, *RELATIONS)
LENGTH = 6  # two names of two words, what is between them, and the end
NAMES = (1, 4)  # the places of the two shapes' names in a caption
STEPS, BATCH, RATE, TESTS, SHOWN = 1500, 48, 1.5e-3, 1000, 3
RADIUS = (4.0, 6.5)  # of a shape, in pixels


@dataclass(frozen=True, eq=False)
class Scenes:
    images: Tensor  # (b, 3, side, side)
    captions: Tensor  # (b, length)
    covered: Tensor  # bool (b, 2, side, side): where the shapes are, in the order of their names


def scenes(count: int) -> Scenes:
    """Two shapes each, of which one has the left or upper half, and the other the rest."""
    across = torch.rand(count) < 0.5
    low, high = RADIUS
    radii = low + (high - low) * torch.rand(count, 2)
    along = torch.stack((0.25 * SIDE + torch.randn(count), 0.75 * SIDE + torch.randn(count)), 1)  # the deciding axis
    beside = radii + 1 + (SIDE - 2 * radii - 2) * torch.rand(count, 2)
    beside[:, 1] = beside[:, 0] + (beside[:, 1] - beside[:, 0]).clamp(-8, 8)  # so that it decides clearly
    x, y = torch.where(across[:, None], along, beside), torch.where(across[:, None], beside, along)
    kinds, colours = torch.randint(len(SHAPES), (count, 2)), torch.randint(len(COLOURS), (count, 2))
    covered = inside(kinds, x, y, radii)
    palette = torch.tensor(list(COLOURS.values()))
    images = 0.12 * torch.rand(count, 3, SIDE, SIDE)
    for i in range(2):
        images = torch.where(covered[:, i, None], palette[colours[:, i]][..., None, None], images)
    first = [WORDS.index(word) for word in (next(iter(COLOURS)), SHAPES[0], RELATIONS[0])]
    hue, form, between = first[0] + colours, first[1] + kinds, first[2] + (~across).long()
    end = torch.ones(count, dtype=torch.long)
    captions = torch.stack((hue[:, 0], form[:, 0], between, hue[:, 1], form[:, 1], end), 1)
    return Scenes(images, captions, covered)


def inside(kinds: Tensor, x: Tensor, y: Tensor, radii: Tensor) -> Tensor:
    """(b, 2) of each -> bool (b, 2, side, side)"""
    places = torch.arange(SIDE) + 0.5
    across = (places - x[..., None])[..., None, :] / radii[..., None, None]
    down = (places - y[..., None])[..., None] / radii[..., None, None]
    forms = torch.stack(
        (
            torch.maximum(across.abs(), down.abs()) < 0.9,
            across.square() + down.square() < 1,
            (down < 0.8) & (across.abs() < (down + 1) / 1.8),
        ),
        -1,
    )
    return forms.gather(-1, kinds[..., None, None, None].expand(*kinds.shape, SIDE, SIDE, 1))[..., 0]


def taught() -> Model:
    model = regard.build("captioner-tiny", image=SIDE, patch=PATCH, vocab=len(WORDS), depth=1)
    net = model.net
    assert isinstance(net, Captioner)

    def loss() -> Tensor:
        some = scenes(BATCH)
        logits = net(some.images, given(some.captions))
        return F.cross_entropy(logits.flatten(0, 1), some.captions.flatten())

    fit(net.train().parameters(), loss, steps=STEPS, rate=RATE)
    return model.eval()


def given(captions: Tensor) -> Tensor:
    """What stands before each word."""
    return F.pad(captions[:, :-1], (1, 0))


@torch.no_grad()
def written(net: Captioner, images: Tensor) -> Tensor:
    """The likeliest word, again and again.  (b, 3, side, side) -> (b, length)"""
    memory, cache = net.encode(images), Cache()
    words = [torch.zeros(len(images), 1, dtype=torch.long)]
    for _ in range(LENGTH):
        words.append(net.decode(words[-1], memory, cache=cache).argmax(-1))
    return torch.cat(words[1:], 1)


def compute() -> Numbers:
    with seeded(SEED):
        model = taught()
    with seeded(SEED + 1):
        tests = scenes(TESTS)
    assert isinstance(model.net, Captioner)
    said = written(model.net, tests.images)
    exact = (said == tests.captions).all(1)
    other = written(model.net, tests.images.roll(1, 0))
    with torch.no_grad():
        looked = model(tests.images[:200], given(tests.captions[:200]), look="decoder.*.cross")
    maps = torch.stack([one.weights for one in looked.maps.values()]).mean((0, 2))  # layers and heads: (b, length, m)
    area = F.max_pool2d(tests.covered[:200].float(), PATCH).flatten(2)  # patches that a shape is in
    named = torch.stack([(maps[:, place] * area[:, i]).sum(-1) for i, place in enumerate(NAMES)], 1)
    return {
        "exact": float(exact.double().mean()),
        "another image": float((other == tests.captions).all(1).double().mean()),
        "words": float((said == tests.captions).double().mean()),
        "on its shape": float(named.mean()),
        "on the other": float(
            torch.stack([(maps[:, place] * area[:, 1 - i]).sum(-1) for i, place in enumerate(NAMES)], 1).mean()
        ),
        "share of a shape": float(area.mean()),
        "images": plain((255 * tests.images[:SHOWN]).round().int()),
        "said": [[WORDS[i] for i in row] for row in said[:SHOWN].tolist()],
        "maps": [[plain(maps[i, place], 3) for place in range(LENGTH - 1)] for i in range(SHOWN)],
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Of {TESTS:,} unseen images {style.percent(numbers['exact'], 1)} are described without a fault. Below each"
        " word, the patches that the decoder looked at\nwhile it chose it, the mean of all layers and heads: dark is"
        f" much. When a shape is named, {style.percent(numbers['on its shape'])} of the look is on it;\nit is in"
        f" {style.percent(numbers['share of a shape'])} of the patches."
    )
    figure = style.page(TITLE, note, height=7.6)
    panels = figure.subplots(SHOWN, LENGTH)
    for row, pixels, words, maps in zip(panels, numbers["images"], numbers["said"], numbers["maps"], strict=True):
        image = torch.tensor(pixels).permute(1, 2, 0) / 255
        picture(row[0])
        row[0].imshow(image.numpy())
        for axes, word, weights in zip(row[1:], words[:-1], maps, strict=True):
            picture(axes)
            grid = torch.tensor(weights).unflatten(0, (SIDE // PATCH, SIDE // PATCH))
            axes.imshow(grid.numpy(), cmap=style.WEIGHTS, vmin=0, vmax=float(grid.max()))
            axes.set_title(word, size=12.5, loc="center")
    return figure


def picture(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color(style.LINE)
    axes.spines[:].set_visible(True)


def holds(numbers: Numbers) -> list[Check]:
    return [
        above("captions without a fault, share", numbers["exact"], 0.9),
        below("captions that fit another image, share", numbers["another image"], 0.05),
        above("look on the shape that is named, over its share of patches", ratio(numbers, "on its shape"), 3),
        above(
            "look on the shape that is named, over that on the other",
            numbers["on its shape"] / numbers["on the other"],
            2,
        ),
    ]


def ratio(numbers: Numbers, name: str) -> float:
    return float(numbers[name] / numbers["share of a shape"])
