"""2.8: seconds and peak bytes of attention mechanisms against the number of tokens, with fitted slopes.

Each mechanism is built by its word from the table of mechanisms and runs as a layer, projections included. A mechanism
joins the chart by a line in SHOWN; what its time must grow like stands beside it. The time of the explicit form depends
on how the system hands out large pieces of memory, and at 4,096 tokens grows faster than what is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent, peak_bytes, time_fastest
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.site import Site
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, aside, seeded, within

TITLE = "What attention costs"
DECKS = ("000", "003", "004", "001", "002")
CLAIM = "Dense attention takes time as N^2 (slope 1.8 to 2.1 from 1,024 tokens on), whatever its scores are."
EXPECTED = (
    "From 1,024 tokens on the seconds of dense attention grow with an exponent of 1.8 to 2.1: additive, and dot"
    " products explicit and fused."
)
FOUND = (
    "Seconds grow as N^2.01 (additive) and N^1.89 (fused), but as N^2.90 where the N × N map is kept: at 4,096 tokens"
    " it takes 12 times as long as at 2,048."
)
COST = 16.2
SEED = 0

SIZES = [256, 512, 1024, 1448, 2048, 4096]
WIDTH = 16
FIT = 1024  # slopes are those from here on


@dataclass(frozen=True)
class Curve:
    choice: Choice
    low: float
    high: float  # between these two must the slope of its time be
    tint: str
    longest: int = 4096
    rounds: int = 15
    looked_at: bool = False  # someone listens to its weights, so the map is formed


SHOWN = {
    "additive": Curve("additive", 1.8, 2.1, style.SECOND, longest=2048, rounds=9),
    "softmax, explicit": Curve("softmax", 1.8, 2.1, style.EDGE, looked_at=True),
    "softmax, fused": Curve("softmax", 1.8, 2.1, style.WEIGHT),
}


def compute() -> Numbers:
    numbers: Numbers = {"width": WIDTH, "curves": {}}
    with seeded(SEED), torch.no_grad():
        for name, curve in SHOWN.items():
            sizes = [size for size in SIZES if size <= curve.longest]
            works = [layer(curve, torch.randn(1, size, WIDTH)) for size in sizes]
            found = {"seconds": time_fastest(works, curve.rounds), "bytes": [peak_bytes(work) for work in works]}
            numbers["curves"][name] = {"sizes": sizes, **found}
    return numbers


def layer(curve: Curve, x: Tensor) -> Callable[[], Tensor]:
    mixer = build_mixer(curve.choice, Site(dim=WIDTH, heads=1, length=x.shape[1])).eval()

    def looked_at() -> Tensor:
        with capture(mixer, "weights"):
            return mixer(x)

    return looked_at if curve.looked_at else lambda: mixer(x)


def growth(found: dict[str, list[float]], measure: str) -> float:
    """The slope from FIT tokens on."""
    pairs = [(int(size), cost) for size, cost in zip(found["sizes"], found[measure], strict=True) if size >= FIT]
    return cost_exponent([size for size, _ in pairs], [cost for _, cost in pairs])


def draw(numbers: Numbers) -> Figure:
    width = numbers["width"]
    note = (
        f"One layer, one head of width {width}, one thread of a CPU. Exponents are fitted from {FIT:,} tokens on; of"
        "\nthose of time 1.8 to 2.1 is expected."
    )
    figure = style.page(TITLE, note, height=5.2)
    panels = figure.subplots(1, 2)
    for axes, measure, title in zip(panels, ("seconds", "bytes"), ("time", "peak memory"), strict=True):
        for name, found in numbers["curves"].items():
            y = found[measure]
            axes.plot(found["sizes"], y, color=SHOWN[name].tint, marker="o")
            text = f"{name.replace(', ', ',' + chr(10))}  $N^{{{growth(found, measure):.1f}}}$"
            style.end_label(axes, found["sizes"][-1], y[-1], text, SHOWN[name].tint, size=10.5)
        style.logarithmic(axes, [256, 512, 1024, 2048, 4096], "N", measure)
        axes.set_title(title)
        axes.set_xlim(225, 16000)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    curves = numbers["curves"]
    times = [
        within(f"seconds: growth of {name}", growth(curves[name], "seconds"), curve.low, curve.high)
        for name, curve in SHOWN.items()
    ]
    memory = growth(curves["softmax, explicit"], "bytes")
    return [*times, aside(within("explicit: growth of peak bytes", memory, 1.8, 2.1))]
