"""10.1b: deck 001's "most results are close to zero": the weights of a trained encoder, and how few of them matter."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.figures.efficient.trained import LENGTH, maps
from regard.figures.figure import Check, Numbers, above, below, plain

TITLE = "Most weights are close to zero"
DECKS = ("001",)
CLAIM = "The largest 5 % of a trained encoder's weights hold most of its attention, though not the 80 % expected."
COST = 9.0
SEED = 0

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
LOW, STEPS = -7, 28  # powers of ten in the histogram, four steps for each


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, learned in (("trained", True), ("untrained", False)):
        layers = list(maps(learned=learned, seed=SEED))
        entries = torch.cat([layer.flatten() for layer in layers])
        counts = entries.clamp(10**LOW, 0.9999).log10().histc(STEPS, LOW, 0) / len(entries)
        held = torch.stack([mass(layer) for layer in layers])  # (layers, shares)
        small = float((entries < 0.001).float().mean())
        numbers[name] = {"histogram": plain(counts, 4), "held": plain(held, 4), "small": float(f"{small:.4g}")}
    return numbers


def mass(layer: Tensor) -> Tensor:
    """The part of a map's weight that its largest entries hold, the mean of all heads.  (h, n, n) -> (shares,)"""
    entries = layer.flatten(1).sort(-1, descending=True).values
    sums = entries.cumsum(-1) / entries.sum(-1, keepdim=True)
    return torch.stack([sums[:, int(share * entries.shape[1]) - 1].mean() for share in SHARES])


def mean_at(numbers: Numbers, name: str, share: float) -> float:
    column = [layer[SHARES.index(share)] for layer in numbers[name]["held"]]
    return float(sum(column) / len(column))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"All weights of six layers of twelve heads (MiniLM) for {LENGTH} pieces of Wikipedia, and of the same net "
        "before it learned.\nLeft: how large they are; an even weight would be 1/512. Right: how much of the attention "
        "the largest of a map hold."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    edges = [LOW + i * -LOW / STEPS for i in range(STEPS + 1)]
    for name, tint in (("untrained", style.SECOND), ("trained", style.WEIGHT)):
        left.stairs(numbers[name]["histogram"], edges, fill=True, color=tint, alpha=0.25)
        left.stairs(numbers[name]["histogram"], edges, color=tint, lw=1.6)
        held = [mean_at(numbers, name, share) for share in SHARES]
        right.plot(SHARES, held, "o-", color=tint)
    left.axvline(-2.71, color=style.EDGE, lw=1.1, ls=(0, (4, 3)))
    left.text(-2.4, 0.46, "untrained", color=style.SECOND, weight="bold")
    left.text(-4.6, 0.1, "trained", color=style.WEIGHT, weight="bold", ha="right")
    left.set(xlabel="weight", ylim=(0, None))
    left.set_xticks([-7, -5, -3, -1], ["less", "$10^{-5}$", "$10^{-3}$", "0.1"])
    left.set_yticks([0, 0.25, 0.5], ["0", "25 %", "50 %"])
    found = mean_at(numbers, "trained", 0.05)
    told = f"{style.percent(found)} in the largest 5 %"
    right.text(0.043, found + 0.03, told, color=style.WEIGHT, size=10.5, ha="right")
    right.text(0.0055, 0.2, "trained", color=style.WEIGHT, weight="bold")
    right.text(0.13, 0.1, "untrained", color=style.SECOND, weight="bold")
    right.set(xscale="log", xlabel="share of the weights, largest first", ylim=(0, 1.03))
    right.set_xticks([0.01, 0.05, 0.2, 1], ["1 %", "5 %", "20 %", "all"])
    right.minorticks_off()
    right.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    for axes in (left, right):
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    trained, untrained = mean_at(numbers, "trained", 0.05), mean_at(numbers, "untrained", 0.05)
    return [
        above("held by the largest 5 %, mean of all layers", trained, 0.5),
        below("which is less than was expected", trained, 0.8),
        above("times what they held before training", trained / untrained, 4.0),
        above("weights below 0.001, half of an even one", numbers["trained"]["small"], 0.5),
        below("before training", numbers["untrained"]["small"], 0.05),
    ]
