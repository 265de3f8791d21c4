"""6.6b: with a denoiser that makes no mistake, only those of the solver are left.

The denoiser knows the sample and the noise that the run began with. DDPM replaces the noise in each step, so it is told
what the noise is now. What diffusers' DDIM does beside it was measured by our reproduction of its steps
(``reference=True``), which tests/parity/test_schedulers.py compares with diffusers 0.42.1 number by number.
"""

from typing import get_args

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from regard import style
from regard.sample.loop import drawn
from regard.sample.plan import plan_steps, starting_state
from regard.sample.schedules import NoiseSchedule, alphas, reference_alphas
from regard.sample.settings import Denoising, SolverName
from regard.sample.spacing import SPACINGS, Spacing
from regard_lectures.figure import Check, Numbers, aside, starts_above, starts_below

TITLE = "A perfect denoiser leads to the data"
DECKS = ("001",)
CLAIM = "Where the denoiser makes no mistake, every solver ends at the data, with any number and spacing of steps."
EXPECTED = "The error is below 1e-12 for each solver, at 10, 13 and 50 steps with each spacing."
FOUND = (
    "At most 2e-13, in 3 starts. diffusers' DDIM, by our reproduction, misses by up to 1.26 (linspace, 10 steps), 1.15"
    " (linspace, 13), 0.31 (linspace, 50) and 0.19 (trailing, 13), and else by less than 1e-13."
)
COST = 3.0
SEED = 0

SEEDS = 3
COUNTS = (10, 13, 50)
SHAPE = (2, 3, 4, 4)
SCHEDULE = NoiseSchedule()
BOUND = 1e-12


def compute() -> Numbers:
    runs = range(SEED, SEED + SEEDS)
    numbers: Numbers = {"error": {}, "reference": {}}
    for spacing in get_args(Spacing):
        for steps in COUNTS:
            name = f"{spacing} {steps}"
            for solver in get_args(SolverName):
                settings = Denoising(solver=solver, spacing=spacing, steps=steps)
                numbers["error"].setdefault(solver, {})[name] = [error(settings, seed) for seed in runs]
            settings = Denoising(solver="ddim", spacing=spacing, steps=steps, reference=True)
            numbers["reference"][name] = [error(settings, seed) for seed in runs]
    return numbers


def error(settings: Denoising, seed: int) -> float:
    """The largest of all pixels."""
    generator = torch.Generator().manual_seed(seed)
    sample, noise = (torch.randn(SHAPE, generator=generator, dtype=torch.float64) for _ in range(2))
    levels = (reference_alphas if settings.reference else alphas)(SCHEDULE).double()

    def denoise(noisy: Tensor, time: Tensor) -> Tensor:
        alpha = levels[time[0]]
        return (noisy - alpha**0.5 * sample) / (1 - alpha) ** 0.5 if settings.solver == "ddpm" else noise

    def fresh(index: int) -> Tensor:
        return torch.randn(SHAPE, generator=generator, dtype=torch.float64)

    plan = plan_steps(SCHEDULE, "noise", settings)
    found = drawn(denoise, starting_state(plan, noise, sample), plan, fresh)
    return float(f"{float((found - sample).abs().max()):.3g}")


def draw(numbers: Numbers) -> Figure:
    starts = len(next(iter(numbers["reference"].values())))
    note = (
        f"The largest error of {starts} starts, where data and noise are normal numbers and the denoiser knows both."
        " Last row: diffusers' DDIM,\nas measured by our reproduction: its steps end beside where the next ones begin."
    )
    figure = style.page(TITLE, note, height=5.0)
    axes = style.stage(figure)
    rows = {name: each for name, each in numbers["error"].items()} | {"diffusers' DDIM": numbers["reference"]}
    for i, spacing in enumerate(SPACINGS):
        style.write(axes, LEFT + (3 * i + 1.5) * WIDE + 0.1 * i, 3.62, spacing, size=12)
        for j, steps in enumerate(COUNTS):
            style.write(
                axes,
                LEFT + (3 * i + j + 0.5) * WIDE + 0.1 * i,
                3.24,
                str(steps),
                va="baseline",
                size=10.5,
                color=style.SOFT,
            )
    style.write(axes, LEFT - 0.15, 3.24, "steps", ha="right", va="baseline", size=10.5, color=style.SOFT)
    for k, (name, each) in enumerate(rows.items()):
        y = 2.7 - 0.44 * k - (0.16 if name not in numbers["error"] else 0)
        style.write(axes, LEFT - 0.15, y + 0.14, name, ha="right", va="baseline", size=11)
        for place, errors in enumerate(each.values()):
            written(axes, LEFT + place * WIDE + 0.1 * (place // 3), y, max(errors))
    return figure


LEFT, WIDE = 1.9, 0.855  # inches


def written(axes: Axes, x: float, y: float, error: float) -> None:
    far = error >= BOUND
    axes.add_patch(Rectangle((x, y), WIDE - 0.04, 0.4, fc=style.SECOND if far else style.WEIGHT_WASH, lw=0))
    words = f"{error:.2f}" if error > 0.005 else f"{error:.0e}".replace("e-", "e−")
    style.write(
        axes, x + WIDE / 2 - 0.02, y + 0.14, words, va="baseline", size=10.5, color="white" if far else style.INK
    )


def checks(numbers: Numbers) -> list[Check]:
    found = []
    for solver, each in numbers["error"].items():
        worst = [max(errors) for errors in zip(*each.values(), strict=True)]
        found.append(starts_below(f"{solver}: largest error", worst, BOUND))
    for steps in (10, 13):
        errors = numbers["reference"][f"linspace {steps}"]
        found.append(aside(starts_above(f"diffusers' DDIM misses with linspace and {steps} steps", errors, 0.01)))
    return found
