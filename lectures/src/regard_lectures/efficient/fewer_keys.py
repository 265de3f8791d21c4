"""10.5d: how many sums of keys Linformer needs (Wang et al., 2020): the loss of hidden pixels against their number.

Two kinds of sums: a whole matrix that is learned, and windows of neighbours, with learned weights within a window
(section 4 of the paper names both). Same net else, same batches; exact attention is the line below.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard.nn.mechanisms import Choice
from regard_lectures.curves import bits
from regard_lectures.efficient.hidden import Course, alone, taught
from regard_lectures.figure import Check, Numbers, above, aside, below

TITLE = "How few keys will do"
DECKS = ("002", "003", "004")
CLAIM = "Guessing hidden pixels among 256, an encoder that sums keys up to 64 is little worse than exact attention."
EXPECTED = (
    "The loss of an encoder that sums its keys up falls with the number of sums; with 64 sums of 256 keys there is but "
    "a small gap to exact attention."
)
FOUND = (
    "In one start 64 sums have 0.994 times the loss of softmax by windows and 1.039 times by whole matrices; the loss "
    "falls with each doubling of whole matrices, from 0.876 to 0.699 nats, but rises from 16 to 32 windows, from 0.697 "
    "to 0.712, and then falls to 0.646."
)
COST = 1000.0
SEED = 0

COURSE = Course(side=16, batch=8, steps=800)
COUNTS = [16, 32, 64, 128]
ENOUGH = 64
TINTS = {"windows": style.WEIGHT, "whole matrices": style.KEY}


def choice(kind: str, count: int) -> Choice:
    return {"kind": "linformer", "rank": count, "sums": "convolution" if kind == "windows" else "learned"}


def compute() -> Numbers:
    numbers: Numbers = {"alone": alone(COURSE.side), "softmax": taught("softmax", COURSE, SEED)[-1]}
    for kind in TINTS:
        numbers[kind] = [taught(choice(kind, count), COURSE, SEED)[-1] for count in COUNTS]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of four layers that guess hidden pixels of clothes, 15 % of {COURSE.side} × {COURSE.side}; pictures"
        " held out.\nWindows: each sum is one of neighbours in a row. Whole matrices: each may be one of all keys."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    exact, blind = bits([numbers["softmax"], numbers["alone"]])
    axes.axhline(exact, color=style.INK, lw=1.3, ls=(0, (4, 3)))
    for kind, tint in TINTS.items():
        y = bits(numbers[kind])
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
    gaps = {kind: numbers[kind][place] / exact for kind in TINTS}
    return [
        aside(below("softmax: loss over that without a look at other pixels", exact / numbers["alone"], 0.8)),
        *(below(f"{kind}, {ENOUGH} sums: loss over that of softmax", gap, 1.05) for kind, gap in gaps.items()),
        *(above(f"{kind}: least gain from twice as many sums, nats", min(gains(numbers[kind])), 0.0) for kind in TINTS),
    ]


def gains(losses: list[float]) -> list[float]:
    """Nats that each doubling saves."""
    return [fewer - more for fewer, more in pairwise(losses)]
