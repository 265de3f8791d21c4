"""2.4d: what attention costs as the sentence grows, N = 128 ... 4096: time and memory of the explicit form (the N x N
map is formed) and of the fused kernel, which computes the same without ever forming it.

Operations grow with N^2 (deck 000: O(N^2 D)). Whether time does is asked from 1,024 tokens on. Maps of 4,096 are so
large that the system hands out fresh pages for each: there the explicit form takes longer than N^2 asks for.
"""

from functools import partial

import torch
from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import cost_exponent, count_operations, peak_bytes, time_fastest
from regard.nn.attention import Softmax
from regard.nn.mask import ALL
from regard_lectures.figure import Check, Numbers, aside, below, seeded, within

TITLE = "Attention is quadratic"
DECKS = ("000", "003", "004")
CLAIM = "Time grows as N^2; so does the memory of the explicit form, but not that of the fused kernel."
EXPECTED = (
    "Time and memory grow as N^2, with exponents of 1.8 to 2.1 from 1,024 tokens on; the memory of the fused kernel"
    " does not."
)
FOUND = (
    "From 1,024 tokens on the fused form’s time grows as N^1.96 and the explicit form’s memory as N^2.00, but its"
    " time as N^2.63: up to 2,048 tokens as N^2.07, then 9 times for the last doubling."
)
COST = 4.2
SEED = 0

SIZES = [128, 256, 512, 1024, 2048, 4096]
WIDTH = 64
LONG = slice(3, None)  # sizes whose growth is expected to be that of N^2, and is written at the curve


def compute() -> Numbers:
    kernel = Softmax()
    numbers: Numbers = {"sizes": SIZES, "width": WIDTH}
    with seeded(SEED), torch.no_grad():
        heads = [torch.randn(3, 1, 1, size, WIDTH) for size in SIZES]
        for name, form in (("explicit", kernel.explicit), ("fused", kernel.fused)):
            works = [partial(form, q, k, v, ALL, None) for q, k, v in heads]
            numbers[name] = {"seconds": time_fastest(works), "bytes": [peak_bytes(work) for work in works]}
            if name == "explicit":
                numbers["operations"] = [count_operations(work) for work in works]
    return numbers


def draw(numbers: Numbers) -> Figure:
    slow = numbers["explicit"]["seconds"]
    note = (
        f"One head of width {numbers['width']}, one thread of a CPU. Dotted: $N^2$. Exponents are of $N$ ≥ 1,024;"
        " 1.8 to 2.1 is expected.\n"
        f"The last step of the explicit form takes {slow[-1] / slow[-2]:.1f} times as long ($N^2$: 4):"
        " a map so large gets fresh pages of memory each time."
    )
    figure = style.page(TITLE, note, height=5.1)
    panels = figure.subplots(1, 2)
    sizes = numbers["sizes"]
    for axes, measure, title in zip(panels, ("seconds", "bytes"), ("time", "peak memory"), strict=True):
        for name, tint in (("explicit", style.SECOND), ("fused", style.WEIGHT)):
            y = numbers[name][measure]
            axes.plot(sizes, y, color=tint, marker="o")
            growth = f"$N^{{{cost_exponent(sizes[LONG], y[LONG]):.1f}}}$"
            style.end_label(axes, sizes[-1], y[-1], f"{name}  {growth}", tint)
        last = numbers["explicit"][measure][-1] * 2.2
        axes.plot(sizes, [last * (size / sizes[-1]) ** 2 for size in sizes], color=style.EDGE, lw=1.2, ls=":")
        style.logarithmic(axes, sizes, "N", measure)
        axes.set_title(title)
        axes.set_xlim(110, 14000)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    sizes, explicit, fused = numbers["sizes"], numbers["explicit"], numbers["fused"]
    result = [4 * size * numbers["width"] for size in sizes]  # bytes of the output
    extra = [whole - out for whole, out in zip(fused["bytes"], result, strict=True)]
    middle = cost_exponent(sizes[1:5], explicit["seconds"][1:5])
    return [
        aside(within("explicit: growth of operations", cost_exponent(sizes, numbers["operations"]), 1.99, 2.01)),
        within(
            "explicit: growth of peak bytes, N >= 1024", cost_exponent(sizes[LONG], explicit["bytes"][LONG]), 1.8, 2.1
        ),
        below("fused: bytes beyond the result at N = 4096 over those at 1024", extra[-1] / extra[3], 1.1),
        aside(below("fused over explicit: peak bytes at N = 4096", fused["bytes"][-1] / explicit["bytes"][-1], 0.05)),
        aside(within("seconds: growth of the explicit form, N = 256 to 2048", middle, 1.8, 2.1)),
        within(
            "seconds: growth of the explicit form, N >= 1024",
            cost_exponent(sizes[LONG], explicit["seconds"][LONG]),
            1.8,
            2.1,
        ),
        within(
            "seconds: growth of the fused form, N >= 1024", cost_exponent(sizes[LONG], fused["seconds"][LONG]), 1.8, 2.1
        ),
    ]
