"""6.6: how much of an image is left at each time step, by the schedules of three papers and one correction.

Linear: Ho et al. (2020). Cosine: Nichol and Dhariwal (2021). Scaled linear: Rombach et al. (2022), as Stable Diffusion
has it. Zero terminal: Lin et al. (2023), https://arxiv.org/abs/2305.08891, whose table 1 has the roots of the last
alpha that are expected here.

The formulas are written again here, on Python's own numbers.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.sample.schedules import NoiseSchedule, alphas
from regard_lectures.figure import Check, Numbers, below, close, equal

TITLE = "How fast an image becomes noise"
DECKS = ("001",)
CLAIM = "No common noise schedule ends in pure noise; shifted to a terminal of zero, one does."
EXPECTED = (
    "The roots of the last alpha bar are 0.006353 (linear), 0.0000492822 (cosine) and 0.068265 (Stable Diffusion),"
    " whose last alpha bar is 0.0047; with zero terminal it is exactly 0, and the first one stays. All fall at every"
    " step."
)
FOUND = (
    "0.0063528, 0.0000492825 and 0.0682649; Stable Diffusion's last alpha bar is 0.00466; with zero terminal it is 0"
    " and the first one stays 0.99915. All agree with their formulas to 1e-15, and fall at every one of 1,000 steps."
)
COST = 0.3
SEED = 0

STEPS = 1000
SCHEDULES = {
    "linear": NoiseSchedule(),
    "cosine": NoiseSchedule(kind="cosine"),
    "scaled linear": NoiseSchedule(kind="scaled-linear", first=0.00085, last=0.012),
    "zero terminal": NoiseSchedule(kind="scaled-linear", first=0.00085, last=0.012, terminal="zero"),
}
EVERY = 9  # steps of which one is drawn: 0 and 999 are among them
ROOTS = {"linear": 0.006353, "cosine": 4.928220e-05, "scaled linear": 0.068265}  # published
DIGITS = {"linear": 1e-6, "cosine": 1e-9, "scaled linear": 1e-6}


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, schedule in SCHEDULES.items():
        found, wanted = alphas(schedule).tolist(), FORMULAS[name]()
        numbers[name] = {
            "first": found[0],
            "last": found[-1],
            "differs": max(abs(a - b) for a, b in zip(found, wanted, strict=True)),
            "falls": all(a > b for a, b in pairwise(found)),
            "alphas": [float(f"{a:.5g}") for a in found[::EVERY]],
            "half": sum(a > 0.5 for a in found),
        }
    return numbers


def products(betas: Sequence[float]) -> list[float]:
    found, product = [], 1.0
    for beta in betas:
        product *= 1 - beta
        found.append(product)
    return found


def line(first: float, last: float) -> list[float]:
    return [first + (last - first) * i / (STEPS - 1) for i in range(STEPS)]


def linear() -> list[float]:
    return products(line(0.0001, 0.02))


def scaled_linear() -> list[float]:
    return products([root**2 for root in line(0.00085**0.5, 0.012**0.5)])


def cosine() -> list[float]:
    """f(t) / f(0), but for the last step, where beta is cut to 0.999."""
    found = [math.cos((i / STEPS + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(STEPS + 1)]
    left = [one / found[0] for one in found[1:]]
    left[-1] = left[-2] * (1 - 0.999)
    return left


def zero_terminal() -> list[float]:
    roots = [alpha**0.5 for alpha in scaled_linear()]
    return [((root - roots[-1]) * roots[0] / (roots[0] - roots[-1])) ** 2 for root in roots]


FORMULAS = {"linear": linear, "cosine": cosine, "scaled linear": scaled_linear, "zero terminal": zero_terminal}
COLOURS = {
    "linear": style.WEIGHT,
    "cosine": style.KEY,
    "scaled linear": style.SECOND,
    "zero terminal": style.QUERY,
}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left: alpha bar, the share of the image in the variance at each of 1,000 time steps. Right: the logarithm of"
        " signal to noise,\nalpha bar / (1 − alpha bar). Zero terminal is scaled linear, shifted: its last one is minus"
        " infinity."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    for name, found in numbers.items():
        times, look = range(0, STEPS, EVERY), {"color": COLOURS[name], "lw": 2.0, "ls": "--" if "zero" in name else "-"}
        left.plot(times, found["alphas"], label=name, **look)
        pairs = [(t, math.log10(a / (1 - a))) for t, a in zip(times, found["alphas"], strict=True) if a > 0]
        right.plot(*zip(*pairs, strict=True), label=name, **look)
    charted(left, "alpha bar")
    charted(right, "signal to noise, power of ten")
    left.legend(loc="upper right")
    return figure


def charted(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("time step")
    axes.set_xticks(range(0, 1001, 250))
    axes.grid(axis="y")


def checks(numbers: Numbers) -> list[Check]:
    found = [
        close(f"{name}: root of the last", numbers[name]["last"] ** 0.5, ROOTS[name], DIGITS[name]) for name in ROOTS
    ]
    found += [below(f"{name}: difference from its formula", numbers[name]["differs"], 1e-12) for name in SCHEDULES]
    found += [equal(f"{name}: falls at every step", numbers[name]["falls"], True) for name in SCHEDULES]
    return [
        *found,
        close("linear: the first", numbers["linear"]["first"], 1 - 0.0001, 1e-15),
        close("scaled linear: the first", numbers["scaled linear"]["first"], 1 - 0.00085, 1e-15),
        close("scaled linear: the last", numbers["scaled linear"]["last"], 0.0047, 0.00005),
        equal("zero terminal: the last", numbers["zero terminal"]["last"], 0.0),
        equal(
            "zero terminal: the first is that of scaled linear",
            *(numbers[name]["first"] for name in list(numbers)[:1:-1]),
        ),
    ]
