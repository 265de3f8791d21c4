"""Euler's method in the noise level. Karras et al. (2022), https://arxiv.org/abs/2206.00364, algorithm 2 without churn

The image is seen as y = x / signal = x_0 + sigma noise; dy / dsigma = (y - x_0) / sigma is the estimated noise, and
y' = y + noise (sigma' - sigma). Scaled back that is DDIM without fresh noise, x' = signal' x_0 + noise' noise, which
has no infinite sigma at pure noise: so it is computed, and images stand at x here, never at y.

Differs from the reference: time steps are integers, as the denoiser was trained with (the reference interpolates with
"linspace"); a run begins with noise of variance 1 (the reference: of sigma^2 / (1 + sigma^2) but with "leading").
"""

import torch
from torch import Tensor

from regard.sample.prediction import Prediction, clipped, estimated, explained, level_of_sigma, moved
from regard.sample.settings import Denoising
from regard.sample.spacing import even

from .dpm import reference_sigmas
from .move import FreshNoise, Move, Moved, begin_at, chain_to_data, visited_times


class EulerSolver:
    def __init__(self, settings: Denoising, prediction: Prediction) -> None:
        self.settings, self.prediction = settings, prediction

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        estimate = estimated(output, state, move.source, self.prediction)
        if self.settings.clip is not None:
            estimate = explained(clipped(estimate, self.settings.clip), state, move.source)
        return Moved(moved(estimate, move.target), estimate.sample)


def euler_moves(alphas: Tensor, settings: Denoising) -> list[Move]:
    first = begin_at(settings.steps, settings.strength, settings.reference)
    times = visited_times(settings, len(alphas))
    if not settings.reference:
        return chain_to_data(times[first:], alphas, first)
    places = torch.tensor(times, dtype=torch.float32)
    if settings.spacing == "linspace" and settings.steps > 1:
        places = torch.tensor(even(settings.steps, len(alphas)), dtype=torch.float64).flip(0).float()
    sigmas = interpolated(reference_sigmas(alphas).double(), places.double()).float()
    levels = [level_of_sigma(sigma) for sigma in (*sigmas, sigmas.new_zeros(()))]
    told = places.tolist()
    last = len(told) - 1
    return [Move(i, told[i], levels[i], levels[i + 1], i == last) for i in range(first, len(told))]


def interpolated(values: Tensor, places: Tensor) -> Tensor:
    """(t,), (n,) -> (n,): between the values at whole numbers, along lines"""
    below = places.floor().long().clamp(max=len(values) - 2)
    return values[below] + (values[below + 1] - values[below]) * (places - below)
