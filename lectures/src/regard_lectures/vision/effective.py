"""5.1b: how much of its field a convolutional net uses, and how far the heads of a ViT's first layer look.

Understanding the Effective Receptive Field (Luo et al., 2016): slopes of the middle unit by the pixels, squared, over
many nets of random weights with ReLUs. They fall off as a bell does, whose spread grows with the root of the depth,
sqrt(2 L / 3) for kernels of 3 x 3, while the field grows with the depth itself. Beside it, the ViT of the recipe
cifar10: the mean distance at which each head of a layer looks (Dosovitskiy et al., 2021, figure 7), over test images.
Needs cifar10_subset below REGARD_DATA.
"""

from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.look.distance import grid_distances
from regard_lectures.figure import Check, Numbers, above, aside, below, close, plain, seeded
from regard_lectures.labelled_images import pixels_of, shades
from regard_lectures.vision.lessons import photos, share
from regard_lectures.vision.seen import LOOKED, distances, photographer

TITLE = "Field, and what is used of it"
DECKS = ("003", "004")
CLAIM = (
    "Of its field a convolutional net uses a narrow bell; heads in the first layer of a ViT look several times as far."
)
EXPECTED = (
    "What a convolutional net uses of its field is a bell, narrower than the field, of spread sqrt(2 L / 3); some "
    "heads of a ViT's first layer look over twice as far as 8 convolutions."
)
FOUND = (
    "8 layers use a bell of spread 2.36 in a field of 17; heads of the first layer look 14.2 to 16.0 pixels far "
    "(evenly would be 16.5), up to 5.4 times as far as 8 convolutions."
)
COST = 1100.0
SEED = 0

LAYERS, SIDE, WIDTH, NETS = (2, 4, 8), 33, 16, 60


def used(layers: int) -> Tensor:
    """The mean square of the slopes of the middle unit by the pixels, over nets and images.  -> (side, side), sum 1"""
    total = torch.zeros(SIDE, SIDE)
    for _ in range(NETS):
        widths = [1, *[WIDTH] * layers]
        parts: list[nn.Module] = []
        for dim, out in pairwise(widths):
            parts += [nn.Conv2d(dim, out, 3, padding=1, bias=False), nn.ReLU()]
        x = torch.randn(1, 1, SIDE, SIDE, requires_grad=True)
        said = nn.Sequential(*parts[:-1])(x)[0, :, SIDE // 2, SIDE // 2]
        (slope,) = torch.autograd.grad(said @ torch.randn(WIDTH), x)
        total += slope[0, 0].square()
    return total / total.sum()


def spread(share: Tensor) -> float:
    """The standard deviation along one axis, mean of both."""
    places = torch.arange(SIDE) - SIDE // 2
    return float(((share.sum(0) + share.sum(1)) / 2 @ places.square().float()).sqrt())


def bell(share: Tensor) -> float:
    """How much of what lies along a row is explained by a bell of the same spread: the correlation."""
    along = (share.sum(0) + share.sum(1)) / 2
    places = (torch.arange(SIDE) - SIDE // 2).float()
    smooth = (-(places**2) / (2 * spread(share) ** 2)).exp()
    return float(torch.corrcoef(torch.stack((along, smooth)))[0, 1])


def compute() -> Numbers:
    numbers: Numbers = {"fields": {}}
    with seeded(SEED):
        for layers in LAYERS:
            found = used(layers)
            numbers["fields"][str(layers)] = {"spread": spread(found), "bell": bell(found)}
            numbers["fields"][str(layers)]["map"] = shades((found / found.max()).sqrt())
    net, (tested, wanted) = photographer(), photos("test")
    numbers["right"] = share(net, tested, wanted)
    numbers["heads"] = plain(distances(net, tested[:LOOKED]), 4)
    numbers["even"] = net.config.patch * float(grid_distances(net.config.grid).mean())
    return numbers


def reach(layers: int, numbers: Numbers) -> float:
    """Of the bell, the mean distance from its middle: sqrt(pi/2) spreads."""
    return float(1.2533 * numbers["fields"][str(layers)]["spread"])


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, what moves one unit of a net of 3 x 3 layers (root of squared slopes, mean of random nets), its "
        "field framed: most of\nit matters little. Right, how far the heads of a ViT look, in pixels, once it has "
        "learned CIFAR-10; teal, the reach of convolutions."
    )
    figure = style.page(TITLE, note, height=5.0)
    halves = figure.add_gridspec(1, 2, width_ratios=(1.25, 1))
    left, right = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    for axes, layers in zip(left.subplots(1, len(LAYERS)), LAYERS, strict=True):
        field(axes, layers, numbers["fields"][str(layers)])
    heads(right.subplots(), numbers)
    return figure


def field(axes: Axes, layers: int, found: Numbers) -> None:
    axes.imshow(pixels_of(found["map"]), cmap=style.WEIGHTS, vmin=0, vmax=15)
    side = 2 * layers + 1
    corner = SIDE / 2 - side / 2 - 0.5
    style.frame(axes, corner, corner, side, side, style.QUERY, 1.4)
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"{layers} layers", size=11)
    axes.set_xlabel(f"field {side}\nspread {found['spread']:.2f}", size=10.5)
    axes.spines[:].set(visible=True, color=style.LINE)


def heads(axes: Axes, numbers: Numbers) -> None:
    depth = len(numbers["heads"])
    for layer, found in enumerate(numbers["heads"]):
        axes.plot([layer + 1] * len(found), found, "o", color=style.WEIGHT, ms=7, alpha=0.85)
    axes.axhline(numbers["even"], color=style.EDGE, lw=1.2, ls=":")
    axes.text(
        len(numbers["heads"]) - 0.5, numbers["even"] + 2.0, "looking evenly", ha="center", size=10, color=style.SOFT
    )
    for layers in LAYERS:
        axes.axhline(reach(layers, numbers), color=style.KEY, lw=1.4)
    axes.text(
        depth + 0.45, reach(LAYERS[-1], numbers) + 0.3, "2, 4 and 8 convolutions", ha="right", size=10, color=style.KEY
    )
    axes.set(
        xlim=(0.5, depth + 0.5), ylim=(0, numbers["even"] * 1.25), xticks=range(1, depth + 1), xlabel="layer of the ViT"
    )
    axes.set_title("pixels away, mean")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    fields = numbers["fields"]
    deepest = LAYERS[-1]
    first = numbers["heads"][0]
    return [
        *(
            close(
                f"{layers} layers: spread over sqrt(2 L / 3)",
                fields[str(layers)]["spread"] / (2 * layers / 3) ** 0.5,
                1,
                0.15,
            )
            for layers in LAYERS
        ),
        above("8 layers: correlation with a bell of this spread", fields[str(deepest)]["bell"], 0.97),
        below("8 layers: four spreads over the field", 4 * fields[str(deepest)]["spread"] / (2 * deepest + 1), 0.7),
        aside(above("ViT: share of right labels", numbers["right"], 0.35)),
        above(
            "ViT, first layer: how far the farthest head looks, over 8 convolutions",
            max(first) / reach(deepest, numbers),
            2.0,
        ),
    ]
