"""Solvers where the answer is known: a denoiser that knows the data, and data whose score is known."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from regard.sample.guidance import Denoiser
from regard.sample.loop import drawn
from regard.sample.plan import Plan, plan_steps, starting_state
from regard.sample.prediction import PREDICTIONS, NoiseLevel, add_noise, level_of, training_target
from regard.sample.schedules import NoiseSchedule, alphas
from regard.sample.settings import SOLVER_NAMES, Denoising
from regard.sample.solvers.ddim import DDIM
from regard.sample.solvers.ddpm import DDPM
from regard.sample.solvers.dpm import MultistepDPM
from regard.sample.solvers.move import Move, Solver
from regard.sample.spacing import SPACINGS

SHAPE = (2, 3, 4, 4)
EXACT = 1e-12
SCHEDULES = [
    NoiseSchedule(),
    NoiseSchedule(kind="scaled-linear", first=0.00085, last=0.012),
    NoiseSchedule(kind="cosine"),
]


def normal(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape or SHAPE, generator=draw, dtype=torch.float64)


def numbers(index: int) -> Tensor:
    return normal(torch.Generator().manual_seed(index))


def knows_the_sample(plan: Plan, schedule: NoiseSchedule, sample: Tensor) -> Denoiser:
    """From whatever it is shown, what its noise would be if this were the sample."""
    levels = alphas(schedule)

    def denoise(noisy: Tensor, time: Tensor) -> Tensor:
        alpha = levels[time[0]]
        noise = (noisy - alpha**0.5 * sample) / (1 - alpha) ** 0.5
        return training_target(plan.prediction, sample, noise, alpha)

    return denoise


def knows_both(plan: Plan, schedule: NoiseSchedule, sample: Tensor, noise: Tensor) -> Denoiser:
    """The noise that the run began with, whatever it is shown: right as long as the solver stays on its path."""
    levels = alphas(schedule)
    return lambda noisy, time: training_target(plan.prediction, sample, noise, levels[time[0]])


@pytest.mark.parametrize("steps", [1, 10, 13, 50])
@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_a_perfect_denoiser_leads_to_the_data(solver: str, spacing: str, steps: int, draw: torch.Generator) -> None:
    """Where each step ends beside where the next begins, the second denoiser leads elsewhere."""
    sample, noise = normal(draw), normal(draw)
    for schedule in SCHEDULES:
        if solver == "plms" and schedule.kind == "cosine" and spacing != "leading":
            continue  # its rounding grows by 1 / signal: see there
        for prediction in PREDICTIONS:
            settings = Denoising(
                solver=solver, spacing=spacing, steps=steps, final="first"
            )  # which changes nothing here
            plan = plan_steps(schedule, prediction, settings)
            # of the cosine's first state, 1 part in 20,000 is the sample: the rest of its digits are of the noise
            bound = max(EXACT, 1e-15 / float(plan.moves[0].source.signal)) if prediction == "noise" else EXACT
            found = drawn(knows_the_sample(plan, schedule, sample), starting_state(plan, noise), plan, numbers)
            assert (found - sample).abs().max() < bound
            if solver != "ddpm":  # which replaces the noise
                start = starting_state(plan, noise, sample)
                found = drawn(knows_both(plan, schedule, sample, noise), start, plan, numbers)
                assert (found - sample).abs().max() < bound


OTHERS = [Denoising(solver="ddim", eta=1.0), Denoising(solver="ddpm", variance="large"), Denoising(correction="heun")]
OTHERS += [Denoising(order=1), Denoising(first_order_end="never")]
OTHERS += [Denoising(solver=name, clip=4.0) for name in SOLVER_NAMES]
OTHERS += [Denoising(solver=name, strength=0.3) for name in SOLVER_NAMES]


@pytest.mark.parametrize("settings", OTHERS)
def test_other_settings_lead_there_too(settings: Denoising, draw: torch.Generator) -> None:
    sample, noise = normal(draw).clamp(-4, 4), normal(draw)
    for prediction in PREDICTIONS:
        plan = plan_steps(NoiseSchedule(), prediction, settings)
        start = starting_state(plan, noise, sample)
        found = drawn(knows_the_sample(plan, NoiseSchedule(), sample), start, plan, numbers)
        assert (found - sample).abs().max() < EXACT


@pytest.mark.parametrize("prediction", ["velocity", "sample"])
@pytest.mark.parametrize("solver", ["ddpm", "ddim", "dpm-solver++", "euler"])
def test_from_pure_noise(solver: str, prediction: str, draw: torch.Generator) -> None:
    schedule, sample, noise = NoiseSchedule(terminal="zero"), normal(draw), normal(draw)
    for spacing in ("trailing", "linspace"):
        plan = plan_steps(schedule, prediction, Denoising(solver=solver, spacing=spacing, steps=10))
        assert plan.moves[0].source.alpha == 0
        found = drawn(knows_the_sample(plan, schedule, sample), noise, plan, numbers)
        assert (found - sample).abs().max() < EXACT


def move(source: float, target: float, last: bool = False) -> Move:
    return Move(0, 5, *(level_of(torch.tensor(x, dtype=torch.float64)) for x in (source, target)), last)


@pytest.mark.parametrize("variance", ["small", "large"])
def test_the_posterior_of_ddpm(variance: str) -> None:
    """Mean and variance as in equations 6 and 7, with beta of one time step."""
    beta, before = 0.3, 0.6
    alpha = before * (1 - beta)
    sample, state = torch.tensor([[1.5]], dtype=torch.float64), torch.tensor([[-0.4]], dtype=torch.float64)
    solver = DDPM(Denoising(solver="ddpm", variance=variance), "sample")
    mean = math.sqrt(before) * beta / (1 - alpha) * 1.5 + math.sqrt(1 - beta) * (1 - before) / (1 - alpha) * -0.4
    wide = (1 - before) / (1 - alpha) * beta if variance == "small" else beta
    for fresh in (0.0, 2.0):
        found = solver.step(sample, state, move(alpha, before), lambda index, z=fresh: torch.full_like(state, z))
        assert float(found.state) == pytest.approx(mean + math.sqrt(wide) * fresh, abs=1e-14)
        assert float(found.sample) == 1.5


def test_ancestral_steps_keep_the_forward_marginals(draw: torch.Generator) -> None:
    """q(x_t | x_0) and the posterior of x_s make q(x_s | x_0): for DDPM, and for DDIM with any share of noise."""
    count, sample = 200_000, 1.2
    solvers: list[Solver] = [DDPM(Denoising(solver="ddpm"), "sample")]
    solvers += [DDIM(Denoising(solver="ddim", eta=eta), "sample") for eta in (0.0, 0.5, 1.0)]
    for solver in solvers:
        state = add_noise(torch.tensor(sample), normal(draw, count), torch.tensor(0.2, dtype=torch.float64))
        fresh = normal(draw, count)
        found = solver.step(torch.full_like(state, sample), state, move(0.2, 0.7), lambda index, z=fresh: z).state
        assert float(found.mean()) == pytest.approx(math.sqrt(0.7) * sample, abs=0.01)
        assert float(found.var()) == pytest.approx(0.3, rel=0.02)


def test_ddim_with_all_of_the_noise_is_ddpm() -> None:
    state, output, fresh = numbers(1), numbers(2), numbers(3)
    found = [
        solver.step(output, state, move(0.2, 0.7), lambda index: fresh).state
        for solver in (DDIM(Denoising(solver="ddim", eta=1.0), "noise"), DDPM(Denoising(solver="ddpm"), "noise"))
    ]
    assert torch.allclose(*found, rtol=0, atol=1e-13)


WIDE = 0.5  # the deviation of the data in what follows


def deviation(level: NoiseLevel, wide: float = WIDE) -> Tensor:
    return (level.alpha * wide**2 + 1 - level.alpha) ** 0.5


def known_sample(state: Tensor, level: NoiseLevel, wide: float = WIDE) -> Tensor:
    """The mean of all samples that this image can come from."""
    return level.signal * wide**2 / deviation(level, wide) ** 2 * state


def gaussian_error(begin: Callable[[], Solver], steps: int) -> float:
    """Of normal data the best estimate is known, and the equation keeps each image at its number of deviations. From
    lambda = -2 to 2, in equal steps, and not to the data: only steps of full order."""
    ratios = torch.linspace(-2, 2, steps + 1, dtype=torch.float64)
    levels = [level_of(torch.sigmoid(2 * ratio)) for ratio in ratios]
    solver, state = begin(), torch.tensor([1.3], dtype=torch.float64) * deviation(levels[0])
    for i, (source, target) in enumerate(pairwise(levels)):
        state = solver.step(known_sample(state, source), state, Move(i, i, source, target, False), numbers).state
    return abs(float(state / deviation(levels[-1])) - 1.3)


@pytest.mark.parametrize(
    ("begin", "order"),
    [
        (lambda: DDIM(Denoising(solver="ddim"), "sample"), 1),
        (lambda: MultistepDPM(Denoising(order=1), "sample"), 1),
        (lambda: MultistepDPM(Denoising(), "sample"), 2),
        (lambda: MultistepDPM(Denoising(correction="heun"), "sample"), 2),
    ],
)
def test_order_of_convergence(begin: Callable[[], Solver], order: int) -> None:
    coarse, fine = gaussian_error(begin, 80), gaussian_error(begin, 160)
    assert math.log2(coarse / fine) == pytest.approx(order, abs=0.15)


def test_the_second_order_is_worth_it() -> None:
    """From noise to data of deviation 1, 20 steps of DPM-Solver++ or PLMS are nearer than 100 of DDIM."""
    schedule, noise = NoiseSchedule(), torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    levels = alphas(schedule)

    def denoise(noisy: Tensor, time: Tensor) -> Tensor:
        return known_sample(noisy, level_of(levels[int(time[0])]), 1.0)

    def error(settings: Denoising) -> float:
        plan = plan_steps(schedule, "sample", settings)
        return float((drawn(denoise, noise, plan, numbers) - noise).abs().max())

    many = error(Denoising(solver="ddim", steps=100))
    assert error(Denoising(steps=20)) < many / 5
    assert error(Denoising(solver="plms", steps=20)) < many / 5
    assert many < error(Denoising(solver="ddim", steps=20)) / 3
    assert error(Denoising(solver="euler", steps=100)) == pytest.approx(many, rel=1e-9)


def test_clipping_keeps_the_image_explained() -> None:
    """The noise is that which, with the clipped sample, makes the image: else both would be of no image at all."""
    state, one = torch.full(SHAPE, 3.0, dtype=torch.float64), move(0.5, 0.8)
    found = DDIM(Denoising(solver="ddim", clip=1.0), "noise").step(torch.zeros_like(state), state, one, numbers)
    assert float(found.sample.max()) == 1.0
    noise = (3.0 - math.sqrt(0.5)) / math.sqrt(0.5)
    assert float(found.state.max()) == pytest.approx(math.sqrt(0.8) + math.sqrt(0.2) * noise)
