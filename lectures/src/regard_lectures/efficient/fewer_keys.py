"""10.5d: how many sums of keys Linformer needs (Wang et al., 2020): the loss of hidden pixels against their number.

Two kinds of sums: a whole matrix that is learned, and windows of neighbours, with learned weights within a window
(section 4 of the paper names both). Same net else, same batches; exact attention is the line below.
"""

from itertools import pairwise
from statistics import fmean

from matplotlib.figure import Figure

from regard import style
from regard.nn.mechanisms import Choice
from regard_lectures.curves import bits
from regard_lectures.efficient.hidden import Course, alone, taught
from regard_lectures.figure import Check, Numbers, aside, starts_above, starts_below
from regard_lectures.toys import means

TITLE = "How few keys will do"
DECKS = ("002", "003", "004")
CLAIM = "Guessing hidden pixels among 256, an encoder that sums keys up to 64 is little worse than exact attention."
EXPECTED = (
    "The loss of an encoder that sums its keys up falls with the number of sums; with 64 sums of 256 keys there is but "
    "a small gap to exact attention."
)
FOUND = (
    "64 sums have 0.994, 1.074 and 1.099 times the loss of softmax by windows and 1.039, 1.145, 1.187 times by whole "
    "matrices, a small gap in 1 of 3 starts; the loss falls with each doubling of whole matrices in 3 of 3 starts, of "
    "windows in none, where 32 are 0.000 to 0.016 nats worse than 16."
)
COST = 3000.0
SEED = 0

COURSE, SEEDS = Course(side=16, batch=8, steps=800), 3
COUNTS = [16, 32, 64, 128]
ENOUGH = 64
TINTS = {"windows": style.WEIGHT, "whole matrices": style.KEY}


def choice(kind: str, count: int) -> Choice:
    return {"kind": "linformer", "rank": count, "sums": "convolution" if kind == "windows" else "learned"}


def compute() -> Numbers:
    """For each start the loss of softmax, and the losses of each kind of sums."""
    starts = range(SEED, SEED + SEEDS)
    numbers: Numbers = {"alone": alone(COURSE.side)}
    numbers["softmax"] = [taught("softmax", COURSE, seed)[-1] for seed in starts]
    for kind in TINTS:
        numbers[kind] = [[taught(choice(kind, count), COURSE, seed)[-1] for count in COUNTS] for seed in starts]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of four layers that guess hidden pixels of clothes, 15 % of {COURSE.side} × {COURSE.side}; pictures"
        f" held out; {SEEDS} starts (thin) and their mean.\nWindows: each sum is one of neighbours in a row. Whole"
        " matrices: each may be one of all keys."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    exact, blind = bits([fmean(numbers["softmax"]), numbers["alone"]])
    axes.axhline(exact, color=style.INK, lw=1.3, ls=(0, (4, 3)))
    for kind, tint in TINTS.items():
        for losses in numbers[kind]:
            axes.plot(COUNTS, bits(losses), color=tint, lw=1, alpha=0.5)
        y = bits(means(numbers[kind]))
        axes.plot(COUNTS, y, color=tint, marker="o")
        style.end_label(axes, COUNTS[-1], y[-1], kind, tint)
    axes.set_xscale("log", base=2)
    axes.set_xticks(COUNTS, list(map(str, COUNTS)))
    axes.minorticks_off()
    axes.set_xlim(14, 220)
    axes.text(14.5, exact, f"all {COURSE.side**2} keys, softmax: {exact:.2f}", va="top", color=style.INK, size=10.5)
    axes.axhline(blind, color=style.EDGE, lw=1.2, ls=":")
    axes.text(14.5, blind, f"no look at other pixels: {blind:.2f}", va="bottom", color=style.SOFT, size=10.5)
    axes.set_xlabel("sums of keys")
    axes.set_title("bits of a hidden pixel")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    exact, place = numbers["softmax"], COUNTS.index(ENOUGH)
    gaps = {kind: [losses[place] / whole for losses, whole in zip(numbers[kind], exact, strict=True)] for kind in TINTS}
    blind = [whole / numbers["alone"] for whole in exact]
    return [
        aside(starts_below("softmax: loss over that without a look at other pixels", blind, 0.8)),
        *(starts_below(f"{kind}, {ENOUGH} sums: loss over that of softmax", gap, 1.05) for kind, gap in gaps.items()),
        *(
            starts_above(f"{kind}: least gain from twice as many sums, nats", list(map(least_gain, numbers[kind])), 0.0)
            for kind in TINTS
        ),
    ]


def least_gain(losses: list[float]) -> float:
    """The fewest nats that a doubling saves."""
    return min(fewer - more for fewer, more in pairwise(losses))
