"""2.4d: what attention costs as the sentence grows, N = 128 ... 4096: time and memory of the explicit form (the N x N
map is formed) and of the fused kernel, which computes the same without ever forming it.

Operations grow with N^2 (deck 000: O(N^2 D)), and so does the time of the fused kernel, up to the longest sentence. The
time of the explicit form does so up to 2,048 tokens. Maps of 4,096 are so large that the system hands out fresh pages
for each: the last step takes 9 times as long where N^2 asks for 4. The exponents written at the curves of time are of
N = 256 to 2,048; over N >= 1,024, where the others are taken, the explicit form's would be 2.6. Memory grows with N^2
in the explicit form, but not in the fused one.
"""

from functools import partial

import torch
from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import operations, peak_bytes, seconds, slope
from regard.figures.figure import Check, Numbers, above, below, seeded, within
from regard.nn.attention import Softmax
from regard.nn.mask import ALL

TITLE = "Attention is quadratic"
DECKS = ("000", "003", "004")
CLAIM = "Time grows as N^2, faster in the explicit form beyond 2,048 tokens; so does its memory, not the fused one’s."
COST = 4.2
SEED = 0

SIZES = [128, 256, 512, 1024, 2048, 4096]
WIDTH = 64
FITTED = {"seconds": slice(1, 5), "bytes": slice(3, None)}  # sizes whose growth is written at the curve


def compute() -> Numbers:
    kernel = Softmax()
    numbers: Numbers = {"sizes": SIZES, "width": WIDTH}
    with seeded(SEED), torch.no_grad():
        heads = [torch.randn(3, 1, 1, size, WIDTH) for size in SIZES]
        for name, form in (("explicit", kernel.explicit), ("fused", kernel.fused)):
            works = [partial(form, q, k, v, ALL, None) for q, k, v in heads]
            numbers[name] = {"seconds": seconds(works), "bytes": [peak_bytes(work) for work in works]}
            if name == "explicit":
                numbers["operations"] = [operations(work) for work in works]
    return numbers


def draw(numbers: Numbers) -> Figure:
    slow = numbers["explicit"]["seconds"]
    note = (
        f"One head of width {numbers['width']}, one thread of a CPU, both axes logarithmic. Dotted: $N^2$. Exponents of"
        " time are of $N$ = 256 to 2,048;\n"
        f"the last step of the explicit form takes {slow[-1] / slow[-2]:.1f} times as long ($N^2$: 4):"
        " a map so large gets fresh pages of memory each time."
    )
    figure = style.page(TITLE, note, height=5.1)
    panels = figure.subplots(1, 2)
    sizes = numbers["sizes"]
    for axes, measure, title in zip(panels, ("seconds", "bytes"), ("time", "peak memory"), strict=True):
        for name, tint in (("explicit", style.SECOND), ("fused", style.WEIGHT)):
            y = numbers[name][measure]
            axes.plot(sizes, y, color=tint, marker="o")
            fitted = FITTED[measure]
            growth = f"$N^{{{slope(sizes[fitted], y[fitted]):.1f}}}$"
            style.end_label(axes, sizes[-1], y[-1], f"{name}  {growth}", tint)
        last = numbers["explicit"][measure][-1] * 2.2
        axes.plot(sizes, [last * (size / sizes[-1]) ** 2 for size in sizes], color=style.EDGE, lw=1.2, ls=":")
        style.logarithmic(axes, sizes, "N", measure)
        axes.set_title(title)
        axes.set_xlim(110, 14000)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    sizes, explicit, fused = numbers["sizes"], numbers["explicit"], numbers["fused"]
    result = [4 * size * numbers["width"] for size in sizes]  # bytes of the output
    extra = [whole - out for whole, out in zip(fused["bytes"], result, strict=True)]
    return [
        within("explicit: growth of operations", slope(sizes, numbers["operations"]), 1.99, 2.01),
        within("explicit: growth of peak bytes, N >= 1024", slope(sizes[3:], explicit["bytes"][3:]), 1.8, 2.1),
        below("fused: bytes beyond the result at N = 4096 over those at 1024", extra[-1] / extra[3], 1.1),
        below("fused over explicit: peak bytes at N = 4096", fused["bytes"][-1] / explicit["bytes"][-1], 0.05),
        within(
            "seconds: growth of the explicit form, N = 256 to 2048",
            slope(sizes[1:5], explicit["seconds"][1:5]),
            1.8,
            2.3,
        ),
        above(
            "seconds: explicit form, N = 4096 over 2048 (N^2: 4 times)",
            explicit["seconds"][-1] / explicit["seconds"][-2],
            4,
        ),
        within("seconds: growth of the fused form, N >= 1024", slope(sizes[3:], fused["seconds"][3:]), 1.8, 2.1),
    ]
