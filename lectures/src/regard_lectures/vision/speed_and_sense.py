"""5.5e: accuracy against images a second, after DeiT's first figure (Touvron et al., 2021).

ImageNet accuracies are quoted from the papers of DeiT and LeViT. The images a second are those of the library's nets of
these sizes with random weights at 224 x 224, the fastest of some rounds in which all take turns, by the time of one
thread: what a net computes does not depend on what it knows. The paper's own rates are those of a graphics card. Beside
them stand the small nets of 5.5c on CIFAR-10, both numbers measured. Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.comparison.measure import time_fastest
from regard.nn.folding import fold
from regard.zoo import FAMILIES
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, seeded
from regard_lectures.vision.distilled import student, teacher
from regard_lectures.vision.lessons import photos, share

TITLE = "Accuracy against speed"
DECKS = ("004",)
CLAIM = "A token that learns from a teacher costs next to no speed; a LeViT is several times as fast as a DeiT as good."
EXPECTED = (
    "A net without the second token is at most 1.25 times as fast as one with it; LeViT-256 makes over 3 times the "
    "images a second of DeiT-B."
)
FOUND = (
    "Without the second token a net is at most 1.075 times as fast; LeViT-256 makes 8.5 times the images a second of "
    "DeiT-B; that they are as good is quoted."
)
COST = 1200.0
SEED = 0

QUOTED = {
    "deit-tiny": ("vit", "vit-tiny", 72.2),
    "deit-small": ("vit", "vit-small", 79.8),
    "deit-base": ("vit", "vit-base", 81.8),
    "deit-tiny, distilled": ("deit", "deit-tiny", 74.5),
    "deit-small, distilled": ("deit", "deit-small", 81.2),
    "deit-base, distilled": ("deit", "deit-base", 83.4),
    "levit-128s": ("levit", "levit-128s", 76.6),
    "levit-192": ("levit", "levit-192", 80.0),
    "levit-256": ("levit", "levit-256", 81.6),
    "levit-384": ("levit", "levit-384", 82.6),
}  # our family and size, and the quoted top-1 accuracy, percent
BATCH, ROUNDS = 4, 7


def rates(nets: Sequence[nn.Module], images: torch.Tensor) -> list[float]:
    """Images a second of each; they take turns, round after round, with batch norms folded into the maps beside."""
    nets = [deepcopy(net).eval() for net in nets]
    for net in nets:
        fold(net)
    with torch.inference_mode():
        took = time_fastest([partial(net, images) for net in nets], rounds=ROUNDS)
    return [round(len(images) / time, 2) for time in took]


def compute() -> Numbers:
    with seeded(SEED):
        large = torch.randn(BATCH, 3, 224, 224)
        nets = [FAMILIES[family].net(FAMILIES[family].presets[size]) for family, size, _ in QUOTED.values()]
    tested, wanted = photos("test")
    ours = {
        "CNN, the teacher": teacher(),
        "DeiT": student("none", SEED),
        "DeiT, distilled": student("hard, with token", SEED),
    }
    right = [share(net, tested, wanted) for net in ours.values()]
    small = zip(ours, rates(list(ours.values()), tested[:100]), right, strict=True)
    return {
        "rates": dict(zip(QUOTED, rates(nets, large), strict=True)),
        "ours": {name: {"rate": rate, "right": share} for name, rate, share in small},
    }


KINDS = {"deit": style.EDGE, "distilled": style.WEIGHT, "levit": style.SECOND}


def kind(name: str) -> str:
    return "distilled" if "distilled" in name else name.split("-")[0]


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, ImageNet: accuracies quoted from the papers of DeiT and LeViT; speed measured here, on one core,\n"
        "of nets of these sizes at 224 x 224. Right, the small nets of 5.5c on CIFAR-10, both measured. Higher and\n"
        "farther right is better."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    for group, tint in KINDS.items():
        names = [name for name in QUOTED if kind(name) == group]
        points = [(numbers["rates"][name], QUOTED[name][2]) for name in names]
        left.plot(*zip(*points, strict=True), "o-", color=tint, lw=1.5)
        for name, point in zip(names, points, strict=True):
            text = name.split(",")[0].split("-")[1]
            left.annotate(text, point, (7, 4), textcoords="offset points", size=9.5, color=tint)
    titles = {"deit": "DeiT", "distilled": "DeiT, distilled", "levit": "LeViT"}
    for i, (group, tint) in enumerate(KINDS.items()):
        height = 0.95 - 0.07 * i
        left.text(0.98, height, titles[group], color=tint, ha="right", transform=left.transAxes, weight="bold")
    left.set_title("ImageNet, top-1, % (quoted)")
    for (name, found), tint in zip(numbers["ours"].items(), (style.SECOND, style.WEIGHT, style.KEY), strict=True):
        right.plot(found["rate"], 100 * found["right"], "o", color=tint, ms=8)
        place = (found["rate"], 100 * found["right"])
        right.annotate(name, place, (10, -4), textcoords="offset points", size=10, color=tint)
    right.set_title("CIFAR-10, % (measured)")
    right.margins(x=0.6, y=0.25)
    for axes in (left, right):
        by_ratio(axes)
    return figure


def by_ratio(axes: Axes) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    units = (10, 20, 50) if high > 4 * low else (10, 11, 12, 13, 14, 15, 16, 18, 20, 25, 30, 40, 50, 60, 80)
    ticks = [unit * power // 10 for power in (1, 10, 100, 1000, 10000) for unit in units]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(low, high * 1.15)
    axes.set_xlabel("images a second")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    rates = numbers["rates"]
    sizes = ("tiny", "small", "base")
    slower = max(rates[f"deit-{size}"] / rates[f"deit-{size}, distilled"] for size in sizes)
    return [
        below("measured: a net without the second token over one with it, images a second", slower, 1.25),
        above("LeViT-256 over DeiT-B, as good: images a second", rates["levit-256"] / rates["deit-base"], 3),
        aside(equal("larger DeiTs are slower", rates["deit-tiny"] > rates["deit-small"] > rates["deit-base"], True)),
        aside(above("ours: labelled rightly, share", min(found["right"] for found in numbers["ours"].values()), 0.4)),
    ]
