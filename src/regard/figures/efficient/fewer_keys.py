"""10.5d: how many sums of keys Linformer needs (Wang et al., 2020): the loss of hidden letters against their number.

Two kinds of sums: a whole matrix that is learned, and windows of neighbours, with learned weights within a window
(section 4 of the paper names both). Same net else, same batches; exact attention is the line below.
"""

from matplotlib.figure import Figure

from regard import style
from regard.figures.curves import bits
from regard.figures.efficient.hidden import Course, taught
from regard.figures.figure import Check, Numbers, above, below
from regard.nn.mechanisms import Choice

TITLE = "How few keys will do"
DECKS = ("002", "003", "004")
CLAIM = "Guessing hidden letters among 256, an encoder that sums keys up to 64 is little worse than exact attention."
COST = 900.0
SEED = 0

COURSE = Course(length=256, batch=8, steps=800)
COUNTS = [16, 32, 64, 128]
ENOUGH = 64
TINTS = {"windows": style.WEIGHT, "whole matrices": style.KEY}


def choice(kind: str, count: int) -> Choice:
    return {"kind": "linformer", "rank": count, "sums": "convolution" if kind == "windows" else "learned"}


def compute() -> Numbers:
    numbers: Numbers = {"softmax": ends(taught("softmax", COURSE, SEED))}
    for kind in TINTS:
        numbers[kind] = [ends(taught(choice(kind, count), COURSE, SEED)) for count in COUNTS]
    return numbers


def ends(losses: list[float]) -> list[float]:
    return [losses[0], losses[-1]]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of four layers that guess 15 % of the letters of Shakespeare, hidden, {COURSE.length} at a time;"
        " letters held out.\nWindows: each sum is one of neighbours. Whole matrices: each may be one of all keys."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    exact = bits(numbers["softmax"])[-1]
    axes.axhline(exact, color=style.INK, lw=1.3, ls=(0, (4, 3)))
    for kind, tint in TINTS.items():
        y = [bits(pair)[-1] for pair in numbers[kind]]
        axes.plot(COUNTS, y, color=tint, marker="o")
        style.end_label(axes, COUNTS[-1], y[-1], kind, tint)
    axes.set_xscale("log", base=2)
    axes.set_xticks(COUNTS, list(map(str, COUNTS)))
    axes.minorticks_off()
    axes.set_xlim(14, 220)
    axes.text(14.5, exact, f"all {COURSE.length} keys, softmax: {exact:.2f}", va="bottom", color=style.INK, size=10.5)
    axes.set_xlabel("sums of keys")
    axes.set_title("bits of a hidden letter")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    before, exact = numbers["softmax"]
    last = {kind: [pair[-1] for pair in numbers[kind]] for kind in TINTS}
    enough = last["windows"][COUNTS.index(ENOUGH)]
    return [
        above("softmax: what it has learned, nats", before - exact, 1.2),
        below(f"windows, {ENOUGH} sums: loss over that of softmax", enough / exact, 1.05),
        below(f"which {COUNTS[0]} do not reach: {ENOUGH} over {COUNTS[0]}", enough / last["windows"][0], 1.0),
        above("whole matrices: what the best has learned, nats", before - min(last["whole matrices"]), 0.5),
    ]
