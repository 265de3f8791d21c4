"""6.6c: how fast two solvers come to the right image, where the right one is known.

DDIM: Song et al. (2021). DPM-Solver++ 2M: Lu et al. (2022), https://arxiv.org/abs/2211.01095. For normal data the best
denoiser is known, and so is where the equation leads each start: it stays at its number of deviations. The 16 numbers
of a start have data of 16 deviations.

Once as the library draws: from pure noise to the data, in time steps of a schedule. Once between two noise levels, in
equal steps of log(signal / noise), for which the papers' orders are meant: the step to the data is infinitely long
there, and always of first order.
"""

import math
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.sample.loop import drawn
from regard.sample.plan import SOLVERS, plan_steps
from regard.sample.prediction import NoiseLevel, level_of
from regard.sample.schedules import NoiseSchedule, alphas
from regard.sample.settings import Denoising, SolverName
from regard.sample.solvers.move import Move
from regard_lectures.figure import Check, Numbers, in_starts, starts_within

TITLE = "Looking back makes steps count twice"
DECKS = ("001",)
CLAIM = "DPM-Solver++ 2M, which also uses the estimate before, needs far fewer steps than DDIM."
EXPECTED = (
    "The error of DPM-Solver++ 2M falls with a higher order of the number of steps than that of DDIM. Between two noise"
    " levels, in equal steps of log(signal / noise), the orders are 2 and 1."
)
FOUND = (
    "Orders of 1.89 against 0.97 from noise to the data, on the mean of 3 starts, and 1.92 against 0.98 between two"
    " noise levels."
)
COST = 1.0
SEED = 0

SEEDS = 3
COUNTS = (10, 20, 40, 80, 160)
COMPARED: tuple[SolverName, ...] = ("ddim", "dpm-solver++")
WIDE = torch.logspace(-2, 1, 16, base=2, dtype=torch.float64)  # deviations of the data, 1/4 to 2
SCHEDULE = NoiseSchedule()
REACH = 2.0  # of log(signal / noise), on both sides


def compute() -> Numbers:
    numbers: Numbers = {"drawn": {}, "between": {}}
    for solver in COMPARED:
        runs = [normal(seed) for seed in range(SEED, SEED + SEEDS)]
        numbers["drawn"][solver] = [[drawn_error(solver, steps, start) for steps in COUNTS] for start in runs]
        numbers["between"][solver] = [[error_between(solver, steps, start) for steps in COUNTS] for start in runs]
    return numbers


def normal(seed: int) -> Tensor:
    """(1, 16)"""
    return torch.randn(1, len(WIDE), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def deviation(level: NoiseLevel) -> Tensor:
    """(16,) of data that are so noisy"""
    return (level.alpha * WIDE**2 + 1 - level.alpha) ** 0.5


def known_sample(state: Tensor, level: NoiseLevel) -> Tensor:
    """The mean of all samples that this state can come from."""
    return level.signal * WIDE**2 / deviation(level) ** 2 * state


def drawn_error(solver: SolverName, steps: int, start: Tensor) -> float:
    levels = alphas(SCHEDULE)

    def denoise(noisy: Tensor, time: Tensor) -> Tensor:
        return known_sample(noisy, level_of(levels[time[0]]))

    plan = plan_steps(SCHEDULE, "sample", Denoising(solver=solver, steps=steps))
    begin = start * deviation(plan.moves[0].source)
    return rounded(drawn(denoise, begin, plan, unasked) - start * WIDE)


def error_between(solver: SolverName, steps: int, start: Tensor) -> float:
    ratios = torch.linspace(-REACH, REACH, steps + 1, dtype=torch.float64)
    levels = [level_of(torch.sigmoid(2 * ratio)) for ratio in ratios]
    settings = Denoising(solver=solver, steps=steps)
    taking, state = SOLVERS[solver].begin(settings, "sample"), start * deviation(levels[0])
    for i, (source, target) in enumerate(pairwise(levels)):
        move = Move(i, i, source, target, last=False)
        state = taking.step(known_sample(state, source), state, move, unasked).state
    return rounded(state - start * deviation(levels[-1]))


def unasked(index: int) -> Tensor:
    raise AssertionError("neither solver takes fresh noise")


def rounded(errors: Tensor) -> float:
    """Root mean square"""
    return float(f"{float(errors.square().mean().sqrt()):.4g}")


def order(errors: list[float]) -> float:
    """Of the number of steps: the slope of the line nearest to the logarithms, downwards."""
    x, y = [math.log(steps) for steps in COUNTS], [math.log(error) for error in errors]
    a, b = sum(x) / len(x), sum(y) / len(y)
    return -sum((p - a) * (q - b) for p, q in zip(x, y, strict=True)) / sum((p - a) ** 2 for p in x)


NAMES = {"ddim": "DDIM", "dpm-solver++": "DPM-Solver++ 2M"}
TINTS = {"ddim": style.SECOND, "dpm-solver++": style.WEIGHT}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Root mean square error, where data are normal and the best denoiser is known; three starts each. Left: as the"
        " library draws.\nRight: between two noise levels, in equal steps of log(signal / noise)."
    )
    figure = style.page(TITLE, note, height=5.6)
    left, right = figure.subplots(1, 2)
    chart(left, numbers["drawn"], "from noise to the data")
    chart(right, numbers["between"], "between two noise levels")
    return figure


def chart(axes: Axes, found: dict[str, list[list[float]]], title: str) -> None:
    for solver, runs in found.items():
        for run in runs:
            axes.plot(COUNTS, run, color=TINTS[solver], marker="o", lw=1.4, ms=4)
        mean = sum(order(run) for run in runs) / len(runs)
        label = f"{NAMES[solver]}: order {mean:.2f}"
        axes.plot([], [], color=TINTS[solver], marker="o", label=label)
    axes.set(xscale="log", yscale="log")
    axes.set_title(title)
    axes.set_xlabel("steps")
    axes.set_xticks(COUNTS, [str(steps) for steps in COUNTS])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.legend(loc="lower left")


def checks(numbers: Numbers) -> list[Check]:
    orders = {place: {name: [order(run) for run in runs] for name, runs in numbers[place].items()} for place in numbers}
    one, two = (orders["drawn"][name] for name in COMPARED)
    errors = zip(*(numbers["drawn"][name] for name in COMPARED), strict=True)
    return [
        in_starts("to the data: DPM-Solver++ has the higher order", [b > a for a, b in zip(one, two, strict=True)]),
        in_starts(
            "its error is smaller at each number of steps",
            [all(b < a for a, b in zip(*run, strict=True)) for run in errors],
        ),
        starts_within("between two levels: order of DDIM", orders["between"]["ddim"], 0.75, 1.25),
        starts_within("between two levels: order of DPM-Solver++", orders["between"]["dpm-solver++"], 1.75, 2.25),
    ]
