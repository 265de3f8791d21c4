"""11.3b: attention flow beside attention rollout, on the scenes of 11.3 (Abnar and Zuidema, 2020, sections 3 and 4).

Rollout multiplies the weights along every way from an output down to an input; flow asks how much could pass if each
weight were the width of a pipe. Flow takes one such problem for each input, so it is asked of fewer scenes, and the
seconds of both are told. Needs mnist below REGARD_DATA.
"""

from statistics import fmean
from time import process_time

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.look.flow import attention_flow
from regard.look.rollout import over_image, rolled_out
from regard_lectures.figure import Check, Numbers, above, aside, plain, seeded
from regard_lectures.looking.clutter import inked, learned, maps_of, paper, per_pixel, scenes
from regard_lectures.looking.covered import ranks
from regard_lectures.looking.rolled import edges

TITLE = "Flow, the costlier twin"
DECKS = ("002", "003")
CLAIM = "Flow ranks the places much as rollout does, spreads more evenly over them, and takes far longer."
EXPECTED = "Flow is the costlier twin of rollout: it points to much the same places, and takes far longer."
FOUND = (
    "Ranks of the two correlate by 0.91, flow's entropy is 1.25 times rollout's, and it takes 634 times the seconds; "
    "in the digit's box it has 2.3 times the share of the picture, rollout 5.4 times."
)
COST = 90.0
SEED = 0

TESTS, SHOWN = 40, 5


def compute() -> Numbers:
    net = learned(SEED)
    with seeded(SEED + 1000):
        tested = scenes(TESTS, "test")
    maps, found, took = maps_of(net, tested.images), {}, {}
    for name, way in (("rollout", rolled_out), ("flow", attention_flow)):
        start = process_time()
        found[name] = over_image(way(maps)).double()
        took[name] = process_time() - start
    area = tested.boxes.double().mean((1, 2))
    return {
        "images": [inked(image[0]) for image in tested.images[:SHOWN]],
        "boxes": [edges(box) for box in tested.boxes[:SHOWN]],
        "maps": {name: plain(own[:SHOWN], 2) for name, own in found.items()},
        "ratio": {
            name: float(((per_pixel(own) * tested.boxes).sum((1, 2)) / area).mean()) for name, own in found.items()
        },
        "even": {name: evenness(own) for name, own in found.items()},
        "ranks": [round(ranks(*both), 4) for both in zip(found["rollout"], found["flow"], strict=True)],
        "seconds": took,
    }


def evenness(cells: Tensor) -> float:
    """The entropy over that of an even look, the mean over scenes.  (n, rows, columns)"""
    shares = cells.flatten(1)
    return float(torch.special.entr(shares).sum(1).mean() / torch.tensor(float(shares.shape[1])).log())


def draw(numbers: Numbers) -> Figure:
    ratio, seconds = numbers["ratio"], numbers["seconds"]
    slower = seconds["flow"] / seconds["rollout"]
    note = (
        "Where the class token's answer may come from, each map over its largest. Rank correlation of the two: "
        f"{fmean(numbers['ranks']):.2f},\nmean of {TESTS} scenes. Weight in the digit's box over its area: rollout "
        f"{ratio['rollout']:.1f}, flow {ratio['flow']:.1f}. Flow took {slower:,.0f} times as long."
    )
    figure = style.page(TITLE, note, height=7.0)
    panels = figure.subplots(3, SHOWN)
    for i, column in enumerate(panels.T):
        column[0].imshow(paper(numbers["images"][i]), cmap="gray_r", vmin=0, vmax=15)
        for axes, name in zip(column[1:], ("rollout", "flow"), strict=True):
            axes.imshow(numbers["maps"][name][i], cmap=style.WEIGHTS, vmin=0, extent=(-0.5, 63.5, 63.5, -0.5))
        for axes in column:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color=style.LINE)
            left, top, width, height = numbers["boxes"][i]
            style.frame(axes, left - 0.5, top - 0.5, width, height, style.QUERY, line=1.6)
    for axes, name in zip(panels[:, 0], ("picture", "rollout", "flow"), strict=True):
        axes.set_ylabel(name, color=style.INK)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    seconds = numbers["seconds"]
    return [
        above("rank correlation of rollout and flow, mean", fmean(numbers["ranks"]), 0.5),
        above("seconds, flow over rollout", seconds["flow"] / seconds["rollout"], 10),
        aside(above("flow: weight in the digit's box over its area, mean", numbers["ratio"]["flow"], 1)),
    ]
