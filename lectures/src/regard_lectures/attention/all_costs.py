"""2.8c: seconds and peak bytes of a forward pass against the number of tokens, for the mechanisms
of GROWTHS and for a Perceiver's 64 latents.

Each is built by its word and runs as a layer, projections included. What must be said for a curve to be of one
mechanism is said: Linformer keeps 64 sums at every length, and hashing has two rounds. Some end early: those that have
a score for every pair of places among their weights, or a state for every pair. What grows slowly is measured from
2,048 to 16,384 tokens: before, the cost of beginning at all is a part of it, and the slope of a linear one is below 1.
Even so some stay below 0.9, and a Fourier transform, which is N log N, was expected among the linear ones.
Bytes are those of all tensors that a pass makes, at their peak: what compares all pairs need not keep them, a few rows
of scores at a time will do.
"""

import math
from collections.abc import Callable

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent, peak_bytes, time_fastest
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.site import Site
from regard_lectures.curves import spread
from regard_lectures.figure import Check, Numbers, aside, below, equal, seeded, within

TITLE = "What all of them cost"
DECKS = ("000", "003", "004", "001", "002")
CLAIM = "Whatever compares all pairs takes time as N^2; sums, features, windows and slots as N, and hashing nearly so."
EXPECTED = (
    "Seconds grow with an exponent of 1.8 to 2.1 for what compares all pairs, 0.9 to 1.2 for windows, Linformer,"
    " Performer and Perceiver, between them for hashing (0.9 to 1.8) and for strides (1.2 to 2.1)."
)
FOUND = (
    "What compares all pairs grows as N^1.90 to N^2.04, top-k as N^2.12; local, Linformer and Perceiver as N^0.98 to"
    " N^1.03; but Performer as N^0.88, hashing as N^0.90, strided and fixed as N^1.04 and N^1.15 are below what was"
    " expected, and Fourier’s N^1.25 above it."
)
COST = 120.0
SEED = 0

SIZES = [1024, 2048, 4096, 8192, 16384]
SQUARES, OTHERS = SIZES[:-1], SIZES[1:]  # of what compares all pairs, and of the rest
WIDTH, LATENTS, ROUNDS = 64, 64, 5
APART = 0.042  # of the height of a chart: two names


SQUARE = "all pairs"
MIDDLE = "N sqrt N"  # stride and block are the root of the length
HASHED = "N log N"
LINEAR = "N"

GROWTHS = {
    "softmax": SQUARE,
    "dot": SQUARE,
    "general": SQUARE,
    "additive": SQUARE,
    "concat": SQUARE,
    "mean-dot": LINEAR,
    "mean-concat": SQUARE,
    "local": LINEAR,
    "strided": MIDDLE,
    "fixed": MIDDLE,
    "linformer": LINEAR,
    "synthesizer": SQUARE,
    "synthesizer-dense": SQUARE,
    "synthesizer-random": SQUARE,
    "local-p": SQUARE,
    "cosine": SQUARE,
    "top-k": SQUARE,
    "performer": LINEAR,
    "random-features": LINEAR,
    "chunked": LINEAR,
    "lsh": HASHED,
    "talking": SQUARE,
    "fourier": LINEAR,
    "token-mlp": LINEAR,
    "workspace": LINEAR,
    "perceiver": LINEAR,
}
TINTS = {SQUARE: style.SOFT, MIDDLE: style.KEY, HASHED: style.SECOND, LINEAR: style.WEIGHT}

# What is expected, of exponents
BOUNDS = {SQUARE: (1.8, 2.1), MIDDLE: (1.2, 2.1), HASHED: (0.9, 1.8), LINEAR: (0.9, 1.2)}
NAMED = ("local", "linformer", "performer", "perceiver")  # those of the linear ones of which something is expected
BESIDE = [name for name, kind in GROWTHS.items() if kind == LINEAR and name not in NAMED]
LEAN = 1.2  # of bytes at most, where no pair of places has a weight of its own
LEANLY = [name for name, kind in GROWTHS.items() if kind in (LINEAR, HASHED)]

SAID: dict[str, Choice] = {
    "local": {"kind": "local", "window": 128},
    "linformer": {"kind": "linformer", "rank": 64},
    "lsh": {"kind": "lsh", "rounds": 2},
}
LONGEST = {"additive": 2048, "concat": 2048, "synthesizer": 4096, "synthesizer-random": 4096, "top-k": 4096}


def compute() -> Numbers:
    numbers: Numbers = {"curves": {}}
    with seeded(SEED), torch.no_grad():
        for name in GROWTHS:
            sizes = [size for size in (SQUARES if square(name) else OTHERS) if size <= LONGEST.get(name, SIZES[-1])]
            works = [looks(size) if name == "perceiver" else layer(SAID.get(name, name), size) for size in sizes]
            costs = {"seconds": time_fastest(works, ROUNDS), "bytes": [peak_bytes(work) for work in works]}
            numbers["curves"][name] = {"sizes": sizes} | costs
    return numbers


def square(name: str) -> bool:
    return GROWTHS[name] == SQUARE


def layer(choice: Choice, size: int) -> Callable[[], Tensor]:
    mixer, x = build_mixer(choice, Site(dim=WIDTH, heads=1, length=size)).eval(), torch.randn(1, size, WIDTH)
    return lambda: mixer(x)


def looks(size: int) -> Callable[[], Tensor]:
    """As in a Perceiver: some latents look at all tokens."""
    mixer = build_mixer("softmax", Site(dim=WIDTH, heads=1, cross=True)).eval()
    latents, x = torch.randn(1, LATENTS, WIDTH), torch.randn(1, size, WIDTH)
    return lambda: mixer(latents, x)


def growth(found: dict[str, list[float]], what: str = "seconds") -> float:
    return cost_exponent([int(size) for size in found["sizes"]], found[what])


def draw(numbers: Numbers) -> Figure:
    note = (
        f"A forward pass of one layer, one head of width {WIDTH}, one thread of a CPU. Above seconds, below bytes at"
        " the peak.\nLeft, what compares all pairs of tokens, or has a score for each: of its seconds 1.8 to 2.1 is"
        " expected."
        "\nRight, all others: 0.9 to 1.2 is expected, of lsh 0.9 to 1.8, of strided and fixed 1.2 to 2.1."
    )
    figure = style.page(TITLE, note, height=11.5)
    curves = numbers["curves"]
    squares = {name: found for name, found in curves.items() if square(name)}
    others = {name: found for name, found in curves.items() if name not in squares}
    for line, what in zip(figure.subplots(2, 2, sharey="row"), ("seconds", "bytes"), strict=True):
        for axes, some in zip(line, (squares, others), strict=True):
            for name, found in some.items():
                axes.plot(found["sizes"], found[what], color=TINTS[GROWTHS[name]], lw=1.5, alpha=0.8)
        for axes, some in zip(line, (squares, others), strict=True):
            style.logarithmic(axes, SIZES, "N", what)
            names_at_ends(axes, some, what)
            axes.set_xlim(900, 130000)
    return figure


def names_at_ends(axes: Axes, curves: dict[str, dict[str, list[float]]], what: str) -> None:
    """In one column, each as high as its curve would end at the longest size, if there is room."""
    low, high = map(math.log, axes.get_ylim())
    last = max(size for found in curves.values() for size in found["sizes"])
    ends = {
        name: math.log(found[what][-1]) + growth(found, what) * math.log(last / found["sizes"][-1])
        for name, found in curves.items()
    }
    for name, place in spread(ends, APART * (high - low)).items():
        text = f"{name}  $N^{{{growth(curves[name], what):.1f}}}$"
        style.end_label(axes, last, math.exp(place), text, TINTS[GROWTHS[name]], size=9.5)


def checks(numbers: Numbers) -> list[Check]:
    curves = numbers["curves"]
    checks = [aside(equal("mechanisms without a curve", len(set(GROWTHS) - set(curves)), 0))]
    for name in curves:
        check = within(f"seconds: growth of {name}", growth(curves[name]), *BOUNDS[GROWTHS[name]])
        checks.append(aside(check) if name in BESIDE else check)
    return checks + [
        aside(below(f"bytes: growth of {name}", growth(found, "bytes"), LEAN))
        for name, found in curves.items()
        if name in (*LEANLY, "softmax")
    ]
