"""Noise schedules by their closed forms, and what noise makes of samples."""

import math

import pytest
import torch
from torch import Tensor

from regard.sample.prediction import add_noise, alphas_at, estimated, level_of, training_target
from regard.sample.schedules import NoiseSchedule, alphas, betas
from regard.sample.settings import Denoising

SHAPE = (3, 2, 4, 4)


def test_a_linear_schedule() -> None:
    found = alphas(NoiseSchedule(kind="linear", steps=5, first=0.1, last=0.5))
    left = [0.9, 0.8, 0.7, 0.6, 0.5]
    expected = torch.tensor([math.prod(left[: i + 1]) for i in range(5)], dtype=torch.float64)
    assert found.dtype == torch.float64
    assert torch.allclose(found, expected, rtol=0, atol=1e-15)


def test_a_scaled_linear_schedule_squares_a_line_between_roots() -> None:
    """Its middle beta is not the mean of both ends."""
    schedule = NoiseSchedule(kind="scaled-linear", steps=3, first=0.04, last=0.16)
    assert torch.allclose(betas(schedule, torch.float64), torch.tensor([0.04, 0.09, 0.16], dtype=torch.float64))
    stable = alphas(NoiseSchedule(kind="scaled-linear", first=0.00085, last=0.012))
    assert float(stable[-1]) == pytest.approx(0.00466, abs=1e-5)  # as is told of Stable Diffusion


def test_a_cosine_schedule() -> None:
    """alpha of time step t is f(t + 1) / f(0) with f of the paper, until beta would be above 0.999."""
    found = alphas(NoiseSchedule(kind="cosine", steps=1000))

    def f(t: int) -> float:
        return math.cos((t / 1000 + 0.008) / 1.008 * math.pi / 2) ** 2

    expected = torch.tensor([f(t + 1) / f(0) for t in range(999)], dtype=torch.float64)
    assert torch.allclose(found[:-1], expected, rtol=1e-9, atol=0)
    assert float(found[-1] / found[-2]) == pytest.approx(0.001, rel=1e-9)


@pytest.mark.parametrize("kind", ["linear", "cosine", "scaled-linear"])
def test_zero_terminal_signal(kind: str) -> None:
    """Exactly nothing is left at the end, the beginning is as it was, and in between less is left."""
    plain, zero = (alphas(NoiseSchedule(kind=kind, terminal=terminal)) for terminal in ("as-is", "zero"))
    assert zero[-1] == 0
    assert zero[0] == plain[0]
    assert (zero[1:-1] < plain[1:-1]).all()
    assert (zero.diff() < 0).all()
    middle = (plain[500] ** 0.5 - plain[-1] ** 0.5) * plain[0] ** 0.5 / (plain[0] ** 0.5 - plain[-1] ** 0.5)
    assert float(zero[500] ** 0.5 - middle) == pytest.approx(0, abs=1e-14)


def test_noisy_samples_have_the_stated_mean_and_variance(draw: torch.Generator) -> None:
    levels = alphas(NoiseSchedule())
    for time in (0, 300, 999):
        alpha = alphas_at(levels, torch.full((1,), time), torch.zeros(1, 1, dtype=torch.float64))
        noise = torch.randn(1, 200_000, generator=draw, dtype=torch.float64)
        found = add_noise(torch.full_like(noise, 1.7), noise, alpha)
        wide = float((1 - levels[time]) ** 0.5)
        assert abs(float(found.mean()) - 1.7 * float(levels[time]) ** 0.5) < 5 * wide / 200_000**0.5
        assert float(found.var()) == pytest.approx(1 - float(levels[time]), rel=0.02)


def test_noise_is_that_of_ones_own_time_step(draw: torch.Generator) -> None:
    levels = alphas(NoiseSchedule(steps=10))
    sample, noise = (torch.randn(SHAPE, generator=draw) for _ in range(2))
    alpha = alphas_at(levels, torch.tensor([9, 0, 4]), sample)
    assert (alpha.shape, alpha.dtype) == ((3, 1, 1, 1), torch.float32)
    one = levels[4].float()
    assert torch.equal(add_noise(sample, noise, alpha)[2], one**0.5 * sample[2] + (1 - one) ** 0.5 * noise[2])


@pytest.mark.parametrize("prediction", ["noise", "velocity", "sample"])
def test_what_is_trained_is_what_is_read(prediction: str, draw: torch.Generator) -> None:
    """A denoiser that has learned its target exactly tells the sample and the noise."""
    sample, noise = (torch.randn(SHAPE, generator=draw, dtype=torch.float64) for _ in range(2))
    for alpha in alphas(NoiseSchedule())[[0, 500, 999]]:
        noisy = add_noise(sample, noise, alpha)
        found = estimated(training_target(prediction, sample, noise, alpha), noisy, level_of(alpha), prediction)
        assert torch.allclose(found.sample, sample, rtol=0, atol=1e-12)
        assert torch.allclose(found.noise, noise, rtol=0, atol=1e-12)


def test_targets_differ(draw: torch.Generator) -> None:
    sample, noise, alpha = torch.full(SHAPE, 2.0), torch.full(SHAPE, 3.0), torch.tensor(0.64)
    found: list[Tensor] = [training_target(kind, sample, noise, alpha) for kind in ("noise", "velocity", "sample")]
    assert [float(x.mean()) for x in found] == pytest.approx([3.0, 0.8 * 3 - 0.6 * 2, 2.0])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 1}, "steps = 1 must be at least 2"),
        ({"first": 0.0}, "first = 0.0 must be greater than 0"),
        ({"last": 1.0}, "last = 1.0 must be at least 0 and less than 1"),
        ({"first": 0.03}, "first = 0.03 is greater than last = 0.02"),
        ({"kind": "scaled_linear"}, "kind = 'scaled_linear' is not one of .*did you mean 'scaled-linear'"),
        ({"terminal": "none"}, "terminal = 'none' is not one of as-is, zero"),
    ],
)
def test_bad_schedules_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        NoiseSchedule(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 0}, "steps = 0 must be at least 1"),
        ({"solver": "dpm"}, "solver = 'dpm' is not one of"),
        ({"spacing": "even"}, "spacing = 'even' is not one of"),
        ({"strength": 0.0}, "strength = 0.0 must be greater than 0"),
        ({"strength": 1.5}, "strength = 1.5 is greater than 1"),
        ({"rescale": -0.1}, "rescale = -0.1 must be at least 0"),
        ({"guidance": float("inf")}, "guidance = inf must be finite"),
        ({"eta": 0.5}, "eta = 0.5 is only for the solver 'ddim', not 'dpm-solver\\+\\+'"),
        ({"solver": "ddim", "eta": 1.1}, "eta = 1.1 is greater than 1"),
        ({"variance": "large"}, "variance = 'large' is only for the solver 'ddpm'"),
        ({"order": 3}, "order = 3 is not 1 or 2"),
        ({"solver": "euler", "order": 1}, "order = 1 is only for the solver"),
        ({"clip": 1.0, "reference": True}, "clip = 1.0: the reference's solver 'dpm-solver\\+\\+' does not clip"),
        ({"final": "first", "solver": "euler", "reference": True}, "final = 'first' with the solver 'euler'"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Denoising(**changes)  # type: ignore[arg-type]
