"""1.1: one hidden layer learns y = sin(3x), three waves of it, from 256 points.

That a wide layer can come as close as one likes (Cybenko, 1989; Hornik, 1991) does not say that it will be found. So
each width starts five times, and what is compared are the middle ones.
"""

import math
from statistics import median

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.mlp import LinearStack
from regard_lectures.figure import Check, Numbers, above, plain, seeded, starts_below
from regard_lectures.toys import fit

TITLE = "The wider, the closer"
DECKS = ("004",)
CLAIM = "With 4, 16 and 64 hidden units the error of learning sin(3x) falls at each step."
EXPECTED = "The training error of sin(3x) falls with the width of the hidden layer, from 4 to 16 to 64 units."
FOUND = "The middle error of 5 starts falls from 0.070 with 4 units to 0.0093 with 16 and 0.0011 with 64."
COST = 30.0
SEED = 0

WIDTHS, SEEDS, STEPS, RATE, POINTS = (4, 16, 64), 5, 1500, 1e-2, 256
DRAWN = 128


def learned(x: Tensor, y: Tensor, width: int, seed: int) -> tuple[LinearStack, float]:
    """All points at each step.  -> the layers, and their error at the end"""
    with seeded(seed):
        model = LinearStack((1, width, 1), torch.tanh)
    curve = fit(model.parameters(), lambda: (model(x) - y).square().mean(), steps=STEPS, rate=RATE)
    return model, curve[-1]


def compute() -> Numbers:
    x = torch.linspace(-math.pi, math.pi, POINTS)[:, None]
    y = torch.sin(3 * x)
    numbers: Numbers = {}
    for width in WIDTHS:
        found = []
        for seed in range(SEED, SEED + SEEDS):
            model, error = learned(x, y, width, seed)
            found.append((error, model))
        found.sort(key=lambda pair: pair[0])
        with torch.no_grad():
            middle = found[SEEDS // 2][1](x[:: POINTS // DRAWN])[:, 0]
        numbers[str(width)] = {
            "errors": [float(f"{error:.3g}") for error, _ in found],
            "middle": plain(middle, 3),
            "weights": sum(weight.numel() for weight in model.parameters()),
        }
    return numbers


TINTS = {"4": style.SECOND, "16": style.INK, "64": style.WEIGHT}


def middle(numbers: Numbers, width: int) -> float:
    return median(numbers[str(width)]["errors"])


def draw(numbers: Numbers) -> Figure:
    what = "sin(3x), broad, and what one hidden layer of tanh units makes of it"
    note = f"{what}; {SEEDS} starts of each width, left the middle one."
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    x = torch.linspace(-math.pi, math.pi, POINTS)[:: POINTS // DRAWN].tolist()
    left.plot(x, [math.sin(3 * place) for place in x], color=style.LINE, lw=7, solid_capstyle="round")
    for name, tint in TINTS.items():
        left.plot(x, numbers[name]["middle"], color=tint, lw=1.8)
    left.set(xlim=(-math.pi, math.pi), ylim=(-1.9, 1.9), yticks=[-1, 0, 1], xticks=[-math.pi, 0, math.pi])
    left.set_xticklabels(["−π", "0", "π"])
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    for i, (name, tint) in enumerate(TINTS.items()):
        left.text(-math.pi + 2.1 * i, 1.62, f"{name} units", color=tint, weight="bold")
    for name, tint in TINTS.items():
        errors = numbers[name]["errors"]
        right.plot([int(name)] * SEEDS, errors, "o", color=tint, alpha=0.5, mew=0)
        right.text(
            int(name) * 1.22, middle(numbers, int(name)), f"{middle(numbers, int(name)):.1g}", color=tint, weight="bold"
        )
    right.plot(WIDTHS, [middle(numbers, width) for width in WIDTHS], color=style.SOFT, lw=1.2, zorder=1)
    right.set(xscale="log", yscale="log", xlim=(2.8, 130), xlabel="hidden units", title="mean squared error")
    right.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
    right.minorticks_off()
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    errors = [middle(numbers, width) for width in WIDTHS]
    return [
        above("error of 4 units over that of 16, middle of 5 starts", errors[0] / errors[1], 2.0),
        above("error of 16 units over that of 64, middle of 5 starts", errors[1] / errors[2], 2.0),
        starts_below("error of 64 units", numbers["64"]["errors"], 0.01),
        above(
            "error of 4 units, best of 5 starts, over that of 16 units, worst of 5",
            min(numbers["4"]["errors"]) / max(numbers["16"]["errors"]),
            1.0,
        ),
    ]
