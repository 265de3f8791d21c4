"""What a denoiser predicts: the noise, the sample, or the velocity between them.

Noise: Ho et al. (2020), https://arxiv.org/abs/2006.11239. Velocity: Salimans & Ho (2022),
https://arxiv.org/abs/2202.00512, appendix D: v = sqrt(alpha) noise - sqrt(1 - alpha) x_0, which is defined at every
noise level.

Shapes: b images of any shape; alphas (t,) of all time steps.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Prediction = Literal["noise", "velocity", "sample"]
PREDICTIONS = ("noise", "velocity", "sample")


@dataclass(frozen=True)
class NoiseLevel:
    """How noisy an image is: x = signal * sample + noise * noise, where signal ** 2 + noise ** 2 = 1. All ()."""

    alpha: Tensor
    signal: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Estimate:
    """What a noisy image is made of, as the denoiser sees it."""

    sample: Tensor
    noise: Tensor


def level_of(alpha: Tensor) -> NoiseLevel:
    return NoiseLevel(alpha, alpha**0.5, (1 - alpha) ** 0.5)


def level_of_sigma(sigma: Tensor) -> NoiseLevel:
    """Of sigma = sqrt((1 - alpha) / alpha), the noise beside a sample that is not scaled down."""
    signal = 1 / (sigma**2 + 1) ** 0.5
    return NoiseLevel(signal**2, signal, sigma * signal)


def alphas_at(alphas: Tensor, time: Tensor, like: Tensor) -> Tensor:
    """(t,), (b,) -> (b, 1, 1, ...), to be multiplied with (b, ...)"""
    found = alphas.to(time.device)[time].to(like)
    return found.view(-1, *(1 for _ in like.shape[1:]))


def add_noise(sample: Tensor, noise: Tensor, alpha: Tensor) -> Tensor:
    return alpha.sqrt() * sample + (1 - alpha).sqrt() * noise


def training_target(prediction: Prediction, sample: Tensor, noise: Tensor, alpha: Tensor) -> Tensor:
    """What the denoiser should have said of ``add_noise(sample, noise, alpha)``."""
    if prediction == "velocity":
        return alpha.sqrt() * noise - (1 - alpha).sqrt() * sample
    return noise if prediction == "noise" else sample


def estimated(output: Tensor, state: Tensor, level: NoiseLevel, prediction: Prediction) -> Estimate:
    """From what the denoiser said of ``state``, which is at this noise level."""
    if prediction == "velocity":
        sample = level.signal * state - level.noise * output
        return Estimate(sample, level.signal * output + level.noise * state)
    if prediction == "noise":
        return Estimate((state - level.noise * output) / level.signal, output)
    return Estimate(output, (state - level.signal * output) / level.noise)


def clipped(estimate: Estimate, bound: float | None) -> Estimate:
    """Samples within [-bound, bound]; the noise stays what it was."""
    return estimate if bound is None else Estimate(estimate.sample.clamp(-bound, bound), estimate.noise)


def explained(estimate: Estimate, state: Tensor, level: NoiseLevel) -> Estimate:
    """The noise that, with this sample, makes ``state``."""
    return Estimate(estimate.sample, (state - level.signal * estimate.sample) / level.noise)


def moved(estimate: Estimate, level: NoiseLevel) -> Tensor:
    """The same sample and noise at another level."""
    return level.signal * estimate.sample + level.noise * estimate.noise
