"""10.1b: deck 001's "most results are close to zero": the weights of trained nets, and how few of them matter.

Of a language model those that look ahead, which are zero by its mask, do not count.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard_lectures.efficient.trained import LENGTH, ROWS, maps, writer_maps
from regard_lectures.figure import Check, Numbers, above, aside, below, plain

TITLE = "Most weights are close to zero"
DECKS = ("001",)
CLAIM = (
    "Most weights of trained nets are close to zero: the largest 5 % of a language model's hold over 80 % of its "
    "attention."
)
EXPECTED = (
    "Most weights of trained attention are close to zero: in a trained language model the largest 5 % hold more than "
    "80 % of the attention."
)
FOUND = (
    "The largest 5 % hold 79.98 % of the language model's attention, the mean of its 6 layers (52 to 95 %), and 58 % "
    "of an encoder's, 7.2 times what they held before training; 67 % of the encoder's weights are below 0.001."
)
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
    numbers["writer"] = {"held": plain(torch.stack([mass(layer) for layer in writer_maps()]), 4)}
    return numbers


def mass(layer: Tensor) -> Tensor:
    """The part of a map's weight that its largest entries hold, the mean of all heads.  (h, ...) -> (shares,)"""
    entries = layer.flatten(1).sort(-1, descending=True).values
    sums = entries.cumsum(-1) / entries.sum(-1, keepdim=True)
    return torch.stack([sums[:, int(share * entries.shape[1]) - 1].mean() for share in SHARES])


def mean_at(numbers: Numbers, name: str, share: float) -> float:
    column = [layer[SHARES.index(share)] for layer in numbers[name]["held"]]
    return float(sum(column) / len(column))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"All weights of an encoder (MiniLM) for {LENGTH} pieces of Wikipedia, and before it learned; right also the"
        f" letter model that\nships, {ROWS} texts. Left: how large they are; an even weight would be 1/512. Right: how"
        " much of the attention the largest hold."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    edges = [LOW + i * -LOW / STEPS for i in range(STEPS + 1)]
    for name, tint in (("untrained", style.SECOND), ("trained", style.WEIGHT)):
        left.stairs(numbers[name]["histogram"], edges, fill=True, color=tint, alpha=0.25)
        left.stairs(numbers[name]["histogram"], edges, color=tint, lw=1.6)
        held = [mean_at(numbers, name, share) for share in SHARES]
        right.plot(SHARES, held, "o-", color=tint)
    right.plot(SHARES, [mean_at(numbers, "writer", share) for share in SHARES], "o-", color=style.KEY)
    left.axvline(-2.71, color=style.EDGE, lw=1.1, ls=(0, (4, 3)))
    left.text(-2.4, 0.46, "untrained", color=style.SECOND, weight="bold")
    left.text(-4.6, 0.1, "trained", color=style.WEIGHT, weight="bold", ha="right")
    left.set(xlabel="weight", ylim=(0, None))
    left.set_xticks([-7, -5, -3, -1], ["less", "$10^{-5}$", "$10^{-3}$", "0.1"])
    left.set_yticks([0, 0.25, 0.5], ["0", "25 %", "50 %"])
    sides = (
        ("writer", style.KEY, "letter model", (-9, 6), "right"),
        ("trained", style.WEIGHT, "encoder", (9, -9), "left"),
    )
    for name, tint, text, away, side in sides:
        found = mean_at(numbers, name, 0.05)
        told = f"{text} {style.percent(found)}"
        right.annotate(
            told, (0.05, found), away, textcoords="offset points", color=tint, size=10.5, weight="bold", ha=side
        )
    right.text(0.13, 0.1, "untrained", color=style.SECOND, weight="bold")
    right.set(xscale="log", xlabel="share of the weights, largest first", ylim=(0, 1.03))
    right.set_xticks([0.01, 0.05, 0.2, 1], ["1 %", "5 %", "20 %", "all"])
    right.minorticks_off()
    right.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    for axes in (left, right):
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    trained, untrained = mean_at(numbers, "trained", 0.05), mean_at(numbers, "untrained", 0.05)
    return [
        above("language model: held by the largest 5 %, mean of all layers", mean_at(numbers, "writer", 0.05), 0.8),
        above("encoder: weights below 0.001, half of an even one", numbers["trained"]["small"], 0.5),
        aside(above("encoder: held by the largest 5 %, times what it was before training", trained / untrained, 4.0)),
        aside(below("encoder: weights below 0.001 before training", numbers["untrained"]["small"], 0.05)),
    ]
