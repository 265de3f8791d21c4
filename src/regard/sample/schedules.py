"""Noise schedules: how much of an image is left at each time step.

Linear: Ho et al. (2020), https://arxiv.org/abs/2006.11239, section 4.
Cosine: Nichol & Dhariwal (2021), https://arxiv.org/abs/2102.09672, equation 17.
Scaled linear: Rombach et al. (2022), https://arxiv.org/abs/2112.10752: a line between the roots of beta, squared.
Zero terminal signal-to-noise ratio: Lin et al. (2023), https://arxiv.org/abs/2305.08891, algorithm 1.

``alpha`` is the cumulative product of 1 - beta ("alpha bar"): x_t = sqrt(alpha_t) x_0 + sqrt(1 - alpha_t) noise.

Shapes: t time steps.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.nn.config import not_above_zero, not_at_least, not_one_of, not_shares, refuse

KINDS = ("linear", "cosine", "scaled-linear")
LARGEST_BETA = 0.999  # of the cosine: without it, the last alpha would be 0


@dataclass(frozen=True, kw_only=True)
class NoiseSchedule:
    """The noise levels that a denoiser is trained on."""

    kind: Literal["linear", "cosine", "scaled-linear"] = "linear"
    steps: int = 1000  # number of time steps of training
    first: float = 0.0001  # beta of the first time step; the cosine has none to choose
    last: float = 0.02  # beta of the last time step
    terminal: Literal["as-is", "zero"] = "as-is"  # whether the last time step is shifted to pure noise

    def __post_init__(self) -> None:
        wrong = not_one_of(KINDS, self, "kind") + not_one_of(("as-is", "zero"), self, "terminal")
        wrong += not_at_least(2, self, "steps") + not_above_zero(self, "first", "last") + not_shares(self, "first")
        wrong += not_shares(self, "last")
        if None not in (self.first, self.last) and self.first > self.last:
            wrong += [f"first = {self.first} is greater than last = {self.last}"]
        refuse(wrong)


def alphas(schedule: NoiseSchedule) -> Tensor:
    """(t,) float64, decreasing"""
    return cumulative(schedule, torch.float64)


def reference_alphas(schedule: NoiseSchedule) -> Tensor:
    """(t,) float32: every operation in the precision and order of diffusers 0.42.1."""
    return cumulative(schedule, torch.float32)


def cumulative(schedule: NoiseSchedule, dtype: torch.dtype) -> Tensor:
    found = (1 - betas(schedule, dtype)).cumprod(0)
    if schedule.terminal == "as-is":
        return found
    roots = found.sqrt()
    squared = ((roots - roots[-1]) * (roots[0] / (roots[0] - roots[-1]))) ** 2
    if dtype == torch.float32:  # the reference goes back to betas, and forth again
        return (1 - (1 - torch.cat((squared[:1], squared[1:] / squared[:-1])))).cumprod(0)
    squared[0] = found[0]  # not only up to rounding
    return squared


def betas(schedule: NoiseSchedule, dtype: torch.dtype) -> Tensor:
    """(t,)"""
    first, last, count = schedule.first, schedule.last, schedule.steps
    if schedule.kind == "linear":
        return torch.linspace(first, last, count, dtype=dtype)
    if schedule.kind == "scaled-linear":
        return torch.linspace(first**0.5, last**0.5, count, dtype=dtype) ** 2
    left = [cosine(i / count) for i in range(count + 1)]
    return torch.tensor([min(1 - left[i + 1] / left[i], LARGEST_BETA) for i in range(count)], dtype=dtype)


def cosine(share: float) -> float:
    """alpha after this share of the time. The offset keeps the first betas from being too small (section 3.2)."""
    return math.cos((share + 0.008) / 1.008 * math.pi / 2) ** 2
