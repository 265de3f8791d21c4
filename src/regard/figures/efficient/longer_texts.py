"""10.5e: deck 002's chart of Linformer (Wang et al., 2020, figures 1 and 3) in miniature: perplexity for texts of some
lengths and numbers of sums, and the time of a forward pass as texts get longer.

All nets read as many letters a step, of which those with longer texts make fewer rows. Times are of one processor, for
as many letters in all, so that a mechanism whose cost is linear has a flat line.
"""

import math
from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import seconds
from regard.figures.efficient.hidden import Course, built, taught
from regard.figures.efficient.letters import drawn
from regard.figures.figure import Check, Numbers, above, below, seeded
from regard.nn.mechanisms import Choice

TITLE = "Longer texts for the same time"
DECKS = ("002",)
CLAIM = "Texts four times as long need no more sums of keys, and Linformer reads them in as much time a letter."
COST = 1100.0
SEED = 0

LENGTHS, COUNTS, LETTERS, STEPS = [128, 256, 512], [16, 32, 64], 2048, 500
LONG, READ, ROUNDS = [512, 1024, 2048, 4096, 8192], 8192, 5  # of the times: lengths, letters of a pass, and rounds
TIMED = [32, 128]
SOFTMAX = "softmax"
TINTS = {16: style.SECOND, 32: style.KEY, 64: style.WEIGHT, 128: style.WEIGHT}


def choice(count: int) -> Choice:
    return {"kind": "linformer", "rank": count, "sums": "convolution"}


def label(count: int) -> str:
    return f"{count} sums"


def compute() -> Numbers:
    choices: dict[str, Choice] = {SOFTMAX: SOFTMAX} | {label(count): choice(count) for count in COUNTS}
    losses = {
        name: [taught(one, Course(n, LETTERS // n, STEPS), SEED)[-1] for n in LENGTHS] for name, one in choices.items()
    }
    timed: dict[str, Choice] = {SOFTMAX: SOFTMAX} | {label(count): choice(count) for count in TIMED}
    with seeded(SEED), torch.no_grad():
        works = [read(one, n) for one in timed.values() for n in LONG]
        found = iter(seconds(works, ROUNDS))
    return {"losses": losses, "seconds": {name: [next(found) for _ in LONG] for name in timed}}


def read(choice: Choice, length: int) -> Callable[[], Tensor]:
    net, rows = built(choice, length, SEED).eval(), drawn(length, READ // length)
    return lambda: torch.cat([net(row[None]) for row in rows])  # row by row: what one text takes, many times


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of four layers that guess hidden letters of Shakespeare. Left, perplexity after {STEPS} steps of"
        f" {LETTERS:,} letters; sums are\nof windows of neighbours. Right, milliseconds of one processor for"
        f" 1,000 letters, in texts of so many."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    width = 0.8 / (len(COUNTS) + 1)
    for i, (name, losses) in enumerate(numbers["losses"].items()):
        places = [j + (i - len(COUNTS) / 2) * width for j in range(len(LENGTHS))]
        tint = style.INK if name == SOFTMAX else TINTS[COUNTS[i - 1]]
        left.bar(places, [math.exp(loss) for loss in losses], width * 0.9, color=tint, label=name)
        for x, loss in zip(places, losses, strict=True):
            style.write(left, x, math.exp(loss) + 0.06, f"{math.exp(loss):.1f}", size=8.5, va="bottom")
    left.set_xticks(range(len(LENGTHS)), [f"{n} letters" for n in LENGTHS])
    left.set(yticks=[], title="perplexity")
    left.spines["left"].set_visible(False)
    left.margins(y=0.25)
    left.legend(ncols=2, loc="upper left")
    for name, found in numbers["seconds"].items():
        tint = style.INK if name == SOFTMAX else TINTS[int(name.split()[0])]
        each = [1e6 * time / READ for time in found]
        right.plot(LONG, each, color=tint, marker="o")
        style.end_label(right, LONG[-1], each[-1], name, tint, size=10.5)
    right.set_xscale("log", base=2)
    right.set_xticks(LONG, [f"{n:,}" for n in LONG])
    right.minorticks_off()
    right.set(xlim=(450, 20000), ylim=(0, None), xlabel="letters of a text")
    right.set_title("ms for 1,000 letters")
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    losses, found = numbers["losses"], numbers["seconds"]
    most = label(COUNTS[-1])
    gaps = [math.exp(ours - exact) for ours, exact in zip(losses[most], losses[SOFTMAX], strict=True)]
    flat = [found[label(count)][-1] / found[label(count)][0] for count in TIMED]
    return [
        below(f"{most}: perplexity over that of softmax, largest of all lengths", max(gaps), 1.1),
        below("which does not grow with the length: longest over shortest", gaps[-1] / gaps[0], 1.05),
        below("seconds of Linformer for as many letters, longest texts over shortest", max(flat), 1.5),
        above(
            "seconds of softmax for as many letters, longest over shortest", found[SOFTMAX][-1] / found[SOFTMAX][0], 3
        ),
        above(
            f"seconds of softmax over {label(TIMED[0])}, longest texts",
            found[SOFTMAX][-1] / found[label(TIMED[0])][-1],
            3,
        ),
    ]
