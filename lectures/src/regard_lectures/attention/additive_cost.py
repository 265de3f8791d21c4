"""2.3b: what additive and dot-product scores cost for N = M = 16 ... 512.

Both grow with N x M, but additive scoring works on N x M x n' numbers where dot-product scoring has N x M. That the
translations are as good (BLEU within one point) is shown where translation models are trained, not here.
"""

from functools import partial

import torch
from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import cost_exponent, peak_bytes, time_fastest
from regard.nn.attention import Softmax
from regard.nn.kernels.additive import Additive
from regard_lectures.figure import Check, Numbers, above, close, seeded, within

TITLE = "Additive scores cost more than dot products"
DECKS = ("004",)
CLAIM = "Additive scoring needs O(N·M·n') memory and a clearly larger time than dot-product scoring."
EXPECTED = "Additive scoring has a clearly larger constant than dot products, and memory of O(N·M·n')."
FOUND = "At N = M = 512 additive scores take 240 times the seconds and 64 times the bytes; both memories grow as N^2.0."
COST = 2.5
SEED = 0

SIZES = [16, 32, 64, 128, 256, 512]
WIDTH = 64


def compute() -> Numbers:
    kernels = {"additive": Additive(1, WIDTH), "dot": Softmax(scale=1.0)}
    numbers: Numbers = {"sizes": SIZES, "width": WIDTH}
    with seeded(SEED), torch.no_grad():
        for name, kernel in kernels.items():
            works = [partial(kernel.weights, *torch.randn(2, 1, 1, size, WIDTH)) for size in SIZES]
            numbers[name] = {"seconds": time_fastest(works), "bytes": [peak_bytes(work) for work in works]}
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Scores of $N$ queries and $N$ keys of width {numbers['width']}, both axes logarithmic; one thread of a CPU."
    )
    figure = style.page(TITLE, note, height=4.9)
    panels = figure.subplots(1, 2)
    sizes = numbers["sizes"]
    for axes, measure, title in zip(panels, ("seconds", "bytes"), ("time", "peak memory"), strict=True):
        for name, tint in (("additive", style.SECOND), ("dot", style.WEIGHT)):
            y = numbers[name][measure]
            axes.plot(sizes, y, color=tint, marker="o")
            style.end_label(axes, sizes[-1], y[-1], name, tint)
        style.logarithmic(axes, sizes, "N", measure)
        axes.set_title(title)
        axes.set_xlim(14, 1100)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    sizes, additive, dot = numbers["sizes"], numbers["additive"], numbers["dot"]
    pairs = sizes[-1] ** 2 * 4  # bytes of one number for each pair
    return [
        above(
            "additive memory at N = 512 holds N·M·n' numbers: bytes over 4·N·M·n'",
            additive["bytes"][-1] / (pairs * numbers["width"]),
            0.99,
        ),
        above("additive over dot: peak bytes at N = 512", additive["bytes"][-1] / dot["bytes"][-1], 10),
        within("additive: growth of peak bytes, N >= 64", cost_exponent(sizes[2:], additive["bytes"][2:]), 1.9, 2.1),
        close("dot: growth of peak bytes, N >= 64", cost_exponent(sizes[2:], dot["bytes"][2:]), 2, 0.1),
        above("seconds: additive over dot at N = 512", additive["seconds"][-1] / dot["seconds"][-1], 3),
    ]
