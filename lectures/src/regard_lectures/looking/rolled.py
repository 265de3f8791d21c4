"""11.3: where an answer comes from, by attention rollout: a digit among scraps of others (deck 003, figure 19).

A small ViT names the digit, and rollout tells what its class token has seen through all layers. As the digit's place is
known, it can be measured whether it was looked at. Needs mnist below REGARD_DATA.
"""

import torch
from matplotlib.figure import Figure

from regard import style
from regard.models.vit import ViT
from regard_lectures.figure import Check, Numbers, above, aside, below, plain, seeded
from regard_lectures.labelled_images import right
from regard_lectures.looking.clutter import SIZES, inked, learned, looked_through, paper, per_pixel, scenes

TITLE = "Attention finds the digit among the scraps"
DECKS = ("002", "003")
CLAIM = "Rollout puts over twice as much weight on the digit's box as its share of the picture; untrained, it does not."
EXPECTED = "The weight of rollout within the digit's box is more than twice the box's share of the picture."
FOUND = "In one start it is 5.7 times that share, and 1.2 times before training; 71 % of the digits are named rightly."
COST = 80.0
SEED = 0

TESTS, SHOWN = 500, 5


def compute() -> Numbers:
    net = learned(SEED)
    with seeded(SEED + 1000):
        tested = scenes(TESTS, "test")
        fresh = ViT(SIZES).eval()
    maps = looked_through(net, tested.images)
    area = tested.boxes.double().mean((1, 2))
    inside = {name: (per_pixel(found) * tested.boxes).sum((1, 2)) for name, found in (
        ("trained", maps), ("untrained", looked_through(fresh, tested.images))
    )}  # fmt: skip
    return {
        "right": right(net, tested.images, tested.labels),
        "images": [inked(image[0]) for image in tested.images[:SHOWN]],
        "maps": plain(maps[:SHOWN], 2),
        "boxes": [edges(box) for box in tested.boxes[:SHOWN]],
        "inside": {name: float(found.mean()) for name, found in inside.items()},
        "area": float(area.mean()),
        "ratio": {name: float((found / area).mean()) for name, found in inside.items()},
        "sums": float((maps.sum((1, 2)) - 1).abs().max()),
    }


def edges(box: torch.Tensor) -> list[int]:
    """left, top, width, height"""
    rows, columns = box.nonzero().T
    left, top = int(columns.min()), int(rows.min())
    return [left, top, int(columns.max()) + 1 - left, int(rows.max()) + 1 - top]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"A ViT of {SIZES.depth} layers names the digit, {style.percent(numbers['right'])} of {TESTS} unseen pictures "
        f"rightly. Below, where its class token has looked through all\nlayers, on patches of 8 x 8. "
        f"{style.percent(numbers['inside']['trained'])} of it is in the box around the digit, which is "
        f"{style.percent(numbers['area'], 1)} of the picture; {style.percent(numbers['inside']['untrained'], 1)} "
        "before training."
    )
    figure = style.page(TITLE, note, height=5.4)
    panels = figure.subplots(2, SHOWN)
    most = max(max(map(max, one)) for one in numbers["maps"])
    for (above_, below_), image, cells, box in zip(
        panels.T, numbers["images"], numbers["maps"], numbers["boxes"], strict=True
    ):
        above_.imshow(paper(image), cmap="gray_r", vmin=0, vmax=15)
        below_.imshow(cells, cmap=style.WEIGHTS, vmin=0, vmax=most, extent=(-0.5, 63.5, 63.5, -0.5))
        for axes in (above_, below_):
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color(style.LINE)
            left, top, width, height = box
            style.frame(axes, left - 0.5, top - 0.5, width, height, style.QUERY, line=1.6)
    panels[0, 0].set_ylabel("picture", color=style.INK)
    panels[1, 0].set_ylabel("rollout", color=style.INK)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        aside(above("pictures named rightly, share", numbers["right"], 0.6)),
        above("weight in the digit's box over its area, mean", numbers["ratio"]["trained"], 2),
        aside(below("the same before training", numbers["ratio"]["untrained"], 1.3)),
        aside(below("weights over a picture sum to 1, to within", numbers["sums"], 1e-5)),
    ]
