"""5.3: the ViT figure (Dosovitskiy et al., 2021, figure 1), drawn from a small ViT that runs.

A garment is cut into patches; each becomes a vector by one matrix, positions are added, a class token stands before
them, and an encoder follows. What is drawn are the numbers of this net, which has learned nothing; the checks are the
paper's equations, and that the order of patches means nothing without positions. Needs fashion_mnist_30k below
REGARD_DATA.
"""

from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.vit import PRESETS, Config, ViT
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded
from regard_lectures.labelled_images import pixels_of, shades
from regard_lectures.vision.strip import MEAN, SPREAD, pair

TITLE = "An image is words of 7 x 7 pixels"
DECKS = ("001", "002", "003", "004")
CLAIM = "One matrix makes each patch a word; moved along with their positions, patches give the same answer."
EXPECTED = (
    "One matrix makes each patch a word; patches moved along with their positions give the same answer; ViT-B, L and "
    "H count 86.6, 304.3 and 632.0 million weights."
)
FOUND = (
    "Moved along with their positions patches change the answer by 4e-15, moved alone by 0.17; the counts are 86.6, "
    "304.3 and 632.0 million."
)
COST = 5.0
SEED = 0

SIZES = Config(image=28, patch=7, channels=1, classes=10, dim=16, depth=2, heads=2, hidden=64)
COUNTS = {"vit-base": 86.6, "vit-large": 304.3, "vit-huge": 632.0}  # millions, counted elsewhere


def compute() -> Numbers:
    pixels = pair()[0][:1].double()
    images = (pixels - MEAN) / SPREAD
    with seeded(SEED):
        net: Any = ViT(SIZES).double().eval()
        with torch.no_grad():
            net.head.weight.normal_()  # it begins at zero
            net.class_token.normal_(std=0.1)
        order = torch.randperm(SIZES.grid[0] * SIZES.grid[1])
    with torch.no_grad():
        tokens, said = net.tokens(images), net(images)
        cut = F.unfold(images, SIZES.patch, stride=SIZES.patch).mT  # (1, patches, pixels)
        weight, bias = net.patch.projection.weight.flatten(1), net.patch.projection.bias
        words = cut @ weight.T + bias
        by_hand = torch.cat((net.class_token, words), 1) + net.positions
        swapped = shuffled(images, order)
        alone = net(swapped)
        net.positions[:, 1:] = net.positions[:, 1:][:, order]
        along = net(swapped)
    return {
        "image": shades(pixels[0, 0]),
        "patches": list(cut.shape[1:]),
        "words": plain(words[0], 3),
        "positions": plain(by_hand[0, 1:] - words[0], 3),
        "tokens": plain(by_hand[0], 3),
        "by hand": float((tokens - by_hand).abs().max()),
        "moved along": float((along - said).abs().max()),
        "moved alone": float((alone - said).abs().max()),
        "weights": {name: count_parameters(empty_net("vit", PRESETS[name])) for name in COUNTS},
        "words of huge": PRESETS["vit-huge"].grid[0] * PRESETS["vit-huge"].grid[1],
    }


def shuffled(images: Tensor, order: Tensor) -> Tensor:
    """Patches in another order.  (1, 1, h, w) -> the same"""
    cut = F.unfold(images, SIZES.patch, stride=SIZES.patch)[..., order]
    return F.fold(cut, images.shape[-2:], SIZES.patch, stride=SIZES.patch)


CELL, MIDDLE = 0.14, 2.3  # inches, of a drawn number; the height of all tables' middle


def draw(numbers: Numbers) -> Figure:
    note = (
        "A garment of 28 x 28, cut into 16 patches of 7 x 7. One matrix makes each of them a vector of 16 numbers, its "
        "row in\nthe tables. A learned position is added to each, and a class token is put before them: the encoder’s "
        "input."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = style.stage(figure)
    picture(axes, numbers["image"])
    style.arrow(axes, (3.42, MIDDLE), (3.74, MIDDLE))
    table(axes, 3.82, numbers["words"], "patches × matrix", style.KEY)
    style.write(axes, 6.23, MIDDLE, "+", size=17)
    table(axes, 6.4, numbers["positions"], "positions", style.SECOND)
    stack(axes)
    return figure


def picture(axes: Axes, rows: list[str]) -> None:
    """The image's patches, apart, each with its number."""
    size = axes.get_xlim(), axes.get_ylim()
    side, step = 0.62, 0.77
    full = torch.tensor(pixels_of(rows))
    for i in range(4):
        for j in range(4):
            left, top = 0.35 + step * j, MIDDLE + 2 * step - 0.12 - step * i
            part = full[7 * i : 7 * i + 7, 7 * j : 7 * j + 7]
            axes.imshow(part, cmap="gray_r", vmin=0, vmax=15, extent=(left, left + side, top - side, top), zorder=2)
            style.frame(axes, left, top - side, side, side, style.LINE, line=1)
            style.write(axes, left + side / 2, top + 0.07, str(4 * i + j + 1), size=7.5, color=style.SOFT)
    axes.set(xlim=size[0], ylim=size[1], aspect="auto")


def table(axes: Axes, x: float, rows: list[list[float]], name: str, tint: str) -> None:
    top = MIDDLE + CELL * len(rows) / 2
    style.cells(axes, x, top, rows, CELL, tint=tint)
    style.write(axes, x, top + 0.2, name, ha="left", size=11)
    style.write(axes, x, top - CELL * len(rows) - 0.19, "16 × 16", ha="left", size=9.5, color=style.SOFT)


def stack(axes: Axes) -> None:
    """On the right, upwards: tokens, the encoder, the class token's answer."""
    middle, half = 9.38, 0.4
    style.arrow(axes, (8.68, 0.62), (middle - half - 0.03, 0.62))
    style.box(axes, middle - half, 0.4, 2 * half, 0.44, "[class],\n16 words", fill=style.SUNK, size=8)
    layers = f"encoder\n\n{SIZES.depth} layers:\nall look\nat all"
    style.box(axes, middle - half, 1.18, 2 * half, 1.25, layers, fill=style.VALUE_WASH, size=9)
    style.box(axes, middle - half, 2.77, 2 * half, 0.36, "[class]", edge=style.QUERY, fill=style.QUERY_WASH, size=9)
    style.box(axes, middle - half, 3.47, 2 * half, 0.36, "head", size=9)
    for low, high in ((0.86, 1.16), (2.45, 2.75), (3.15, 3.45)):
        style.arrow(axes, (middle, low), (middle, high), line=1.2, head=7)


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("tokens by the paper's equation, to within", numbers["by hand"], 1e-12),
        below("patches moved along with their positions: the answer moves by", numbers["moved along"], 1e-12),
        above("patches moved alone: the answer moves by", numbers["moved alone"], 1e-3),
        equal("patches and their pixels", str(numbers["patches"]), "[16, 49]"),
        equal("words of ViT-H/14 at 224 x 224", numbers["words of huge"], 256),
        *(
            equal(f"{name}: millions of weights", round(numbers["weights"][name] / 1e6, 1), wanted)
            for name, wanted in COUNTS.items()
        ),
    ]
