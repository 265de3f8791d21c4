"""11.5: mean attention distance by depth, beside the receptive field of convolutions (deck 003, figure 21, after
Dosovitskiy et al., 2021, figure 7, right).

In each layer of a ViT every patch may look at every other, and heads divide that among themselves; a convolution of
3 x 3 sees one pixel farther for each layer. The paper's heads of early layers are spread widely, from near to far, and
those of late layers all look far. Here, with 9,500 photographs to learn from, the first layers' heads are spread more
than the others', but none looks as near as the paper's nearest: those come with many more images (Raghu et al., 2021,
Do Vision Transformers See Like Convolutional Neural Networks?). The net is that of the recipe cifar10. Needs
cifar10_subset below REGARD_DATA.
"""

from statistics import fmean

import torch
from matplotlib.figure import Figure

from regard import style
from regard.look.distance import grid_distances
from regard_lectures.figure import Check, Numbers, above, aside, below, close, plain
from regard_lectures.vision.lessons import photos, share
from regard_lectures.vision.seen import LOOKED, distances, photographer, untaught
from regard_lectures.vision.three_panels import scattered

TITLE = "How far heads look, layer by layer"
DECKS = ("002", "003")
CLAIM = "Some heads of the first layer look far across the picture, where a convolution sees three pixels."
EXPECTED = (
    "Heads of early layers are spread from near to far, some far beyond a convolution's field, and all heads of late "
    "layers look far."
)
FOUND = (
    "In one start heads of a layer differ by 1.9 pixels in the first two layers and by 0.2 in the last two, whose "
    "nearest has 0.97 of an even look (16.5 pixels); the nearest early head has 0.86 of it, so none stays near."
)
COST = 1100.0
SEED = 0


def compute() -> Numbers:
    tested, wanted = photos("test")
    net = photographer()
    config = net.config
    return {
        "right": share(net, tested, wanted),
        "distances": plain(distances(net, tested[:LOOKED]), 4),
        "before": plain(distances(untaught(SEED), tested[:LOOKED]), 4),
        "even": config.patch * float(grid_distances(config.grid).mean()),
        "counted": config.patch * even_by_counting(*config.grid),
        "patch": config.patch,
        "field": [reach(layer) for layer in range(1, config.depth + 1)],
    }


def reach(layers: int) -> float:
    """How far the pixels in a field of so many convolutions of 3 x 3 are from its middle, in the mean: what an even
    look at all of them would have as its distance."""
    offset = torch.arange(-layers, layers + 1).double()
    return float((offset[:, None].square() + offset.square()).sqrt().mean())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"A dot is a head: the mean distance of what it looks at, over {LOOKED} unseen photographs of 32 x 32 and all "
        f"patches\nof {numbers['patch']} x {numbers['patch']}. An even look at everything has {numbers['even']:.1f} "
        "pixels (dashed). Ochre, an even look at all that as many\nlayers of convolutions of 3 x 3 can see."
    )
    depth = len(numbers["distances"])
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.25))
    for axes, table, title in ((left, numbers["before"], "before training"), (right, numbers["distances"], "trained")):
        scattered(axes, table)
        axes.axhline(numbers["even"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
        axes.plot(range(1, depth + 1), numbers["field"], color=style.SECOND)
        axes.set_title(f"{title}, pixels")
    right.set_xlim(0.5, depth + 1.9)
    style.end_label(right, depth, numbers["field"][-1], "convolutions", style.SECOND, size=10.5)
    style.end_label(right, depth, numbers["even"], "everything", style.EDGE, dy=9, size=10.5)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    table, even = numbers["distances"], numbers["even"]
    spread, before = ([max(heads) - min(heads) for heads in some] for some in (table, numbers["before"]))
    return [
        above("spread of heads, the first two layers over the last two", fmean(spread[:2]) / fmean(spread[-2:]), 1),
        below("first two layers: the nearest head over an even look", min(map(min, table[:2])) / even, 0.7),
        above("last two layers: the nearest head over an even look", min(map(min, table[-2:])) / even, 0.6),
        above("first layer: the farthest head over a convolution's reach", max(table[0]) / numbers["field"][0], 5),
        aside(above("photographs labelled rightly, share", numbers["right"], 0.4)),
        aside(below("before training: largest difference of a layer's heads, pixels", max(before), 1.5)),
        aside(close("an even look, pixels, as the spec sheet's formula has it", even, numbers["counted"], 1e-6)),
    ]


def even_by_counting(rows: int, columns: int) -> float:
    """The mean distance of two places, each pair of offsets as often as it occurs."""
    total = sum(
        (rows - abs(i)) * (columns - abs(j)) * (i * i + j * j) ** 0.5
        for i in range(1 - rows, rows)
        for j in range(1 - columns, columns)
    )
    return total / (rows * columns) ** 2
