"""10.5e: deck 002's chart of Linformer (Wang et al., 2020, figures 1 and 3) in miniature: perplexity for inputs of some
lengths and numbers of sums, and the time of a forward pass as inputs get longer.

Longer are the same pictures, less reduced. All nets see about as many pixels a step, in fewer pictures where they are
larger. Times are of one processor, for as many tokens in all, so that a cost that is linear is a flat line.

Sums are of two kinds, as in figure 10.5d: any of all keys, by a matrix that is learned, and of windows of neighbours.
Of 784 pixels a whole matrix was far from learned after as many steps as sufficed for 196, where windows were as good as
exact attention at every length: the paper's flat perplexities are those of long training.
"""

import math
from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import time_fastest
from regard.nn.mechanisms import Choice
from regard_lectures.curves import APART, spread
from regard_lectures.efficient.clothes import SHADES
from regard_lectures.efficient.hidden import Course, built, taught
from regard_lectures.figure import Check, Numbers, above, aside, below, seeded

TITLE = "Longer inputs for the same time"
DECKS = ("002",)
CLAIM = "Inputs twelve times as long need no more sums of keys, and Linformer reads them in as much time a token."
EXPECTED = (
    "How many sums of keys are needed depends little on the length: 64 sums keep up with softmax from 64 to 784 "
    "pixels, and Linformer's time a token does not grow."
)
FOUND = (
    "In one start the perplexity with 64 learned sums is 1.09, 0.97 and 1.50 times that of softmax for 64, 196 and 784 "
    "pixels, with 64 windows at most 1.005 times; from 512 to 8,192 tokens Linformer's time a token does not grow "
    "(0.78 times at most) and softmax's grows 8.6 times."
)
COST = 1000.0
SEED = 0

SIDES, COUNTS, PIXELS, STEPS = [8, 14, 28], [16, 32, 64], 2352, 500
LONG, READ, ROUNDS = [512, 1024, 2048, 4096, 8192], 8192, 5  # of the times: lengths, tokens of a pass, and rounds
TIMED = [32, 128]
SOFTMAX, WINDOWS = "softmax", f"{COUNTS[-1]} windows"
TINTS = {16: style.SECOND, 32: style.KEY, 64: style.WEIGHT, 128: style.WEIGHT}
BARS = {SOFTMAX: style.INK, WINDOWS: style.SOFT}


def choice(count: int) -> Choice:
    return {"kind": "linformer", "rank": count}


def label(count: int) -> str:
    return f"{count} sums"


def compute() -> Numbers:
    choices: dict[str, Choice] = {SOFTMAX: SOFTMAX} | {label(count): choice(count) for count in COUNTS}
    choices[WINDOWS] = {"kind": "linformer", "rank": COUNTS[-1], "sums": "convolution"}
    losses = {
        name: [taught(one, Course(side, PIXELS // side**2, STEPS), SEED)[-1] for side in SIDES]
        for name, one in choices.items()
    }
    timed: dict[str, Choice] = {SOFTMAX: SOFTMAX} | {label(count): choice(count) for count in TIMED}
    with seeded(SEED), torch.no_grad():
        works = [read(one, n) for one in timed.values() for n in LONG]
        found = iter(time_fastest(works, ROUNDS))
    return {"losses": losses, "seconds": {name: [next(found) for _ in LONG] for name in timed}}


def read(choice: Choice, length: int) -> Callable[[], Tensor]:
    net, rows = built(choice, length, SEED).eval(), torch.randint(SHADES, (READ // length, 1, length))
    return lambda: torch.cat([net.read(row) for row in rows])  # one after the other


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of four layers that guess hidden pixels of clothes. Left, perplexity after {STEPS} steps of about"
        f" {PIXELS:,} pixels.\nRight, milliseconds of one processor for 1,000 tokens, in inputs of so many."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    width = 0.86 / len(numbers["losses"])
    for i, (name, losses) in enumerate(numbers["losses"].items()):
        places = [j + (i - (len(numbers["losses"]) - 1) / 2) * width for j in range(len(SIDES))]
        tint = BARS.get(name) or TINTS[COUNTS[i - 1]]
        left.bar(places, [math.exp(loss) for loss in losses], width * 0.9, color=tint, label=name)
        for x, loss in zip(places, losses, strict=True):
            style.write(left, x, math.exp(loss) + 0.03, f"{math.exp(loss):.1f}", size=8.5, va="bottom")
    left.set_xticks(range(len(SIDES)), [f"{side**2} pixels" for side in SIDES])
    left.set(yticks=[], title="perplexity")
    left.spines["left"].set_visible(False)
    left.margins(y=0.25)
    left.legend(ncols=2, loc="upper left")
    each = {name: [1e6 * time / READ for time in found] for name, found in numbers["seconds"].items()}
    tints = {name: style.INK if name == SOFTMAX else TINTS[int(name.split()[0])] for name in each}
    for name, times in each.items():
        right.plot(LONG, times, color=tints[name], marker="o")
    gap = APART * max(map(max, each.values()))
    for name, place in spread({name: times[-1] for name, times in each.items()}, gap).items():
        style.end_label(right, LONG[-1], place, name, tints[name], size=10.5)
    right.set_xscale("log", base=2)
    right.set_xticks(LONG, [f"{n:,}" for n in LONG])
    right.minorticks_off()
    right.set(xlim=(450, 20000), ylim=(0, None), xlabel="tokens of an input")
    right.set_title("ms for 1,000 tokens")
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    losses, found = numbers["losses"], numbers["seconds"]
    most, few = label(COUNTS[-1]), label(TIMED[0])
    sums, windows = (
        [math.exp(ours - exact) for ours, exact in zip(losses[name], losses[SOFTMAX], strict=True)]
        for name in (most, WINDOWS)
    )
    flat = [found[label(count)][-1] / found[label(count)][0] for count in TIMED]
    exact = found[SOFTMAX]
    return [
        below(f"{most}: perplexity over that of softmax, largest of all lengths", max(sums), 1.1),
        below(f"{most}: that does not grow with the length, longest over shortest", sums[-1] / sums[0], 1.05),
        below("seconds of Linformer for as many tokens, longest inputs over shortest", max(flat), 1.1),
        aside(above("seconds of softmax for as many tokens, longest over shortest", exact[-1] / exact[0], 3)),
        aside(above(f"seconds of softmax over {few}, longest inputs", exact[-1] / found[few][-1], 3)),
        aside(below(f"{WINDOWS}: perplexity over that of softmax, largest of all lengths", max(windows), 1.1)),
        aside(below(f"{WINDOWS}: the same, longest over shortest", windows[-1] / windows[0], 1.05)),
    ]
