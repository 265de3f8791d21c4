"""DPM-Solver++ (2M): guided sampling with two estimates a step. Lu et al. (2022), https://arxiv.org/abs/2211.01095

In terms of the half log-ratio l = log(signal / noise), the equation of the sample is solved exactly but for the
estimate, which is extrapolated along a line through the last two: with h = l' - l and d = (x_0 - x_0 before) h / h
before, x' = noise' / noise x - signal' (exp(-h) - 1) (x_0 + d / 2) (algorithm 2, "midpoint"; "heun" weighs d
otherwise). The first step, and one that ends at the data, where l is infinite, use one estimate: they are steps of
DDIM.

The time steps are the beginnings of equal intervals, so that none is spent on the nearly clean image of time step 0.

Differs from the reference: the last step always ends at the data, and a schedule that ends in pure noise stays exactly
that (the reference sets its last alpha to 2 ** -24).
"""

import torch
from torch import Tensor

from regard.sample.prediction import NoiseLevel, Prediction, clipped, estimated, level_of_sigma
from regard.sample.settings import Denoising
from regard.sample.spacing import interval_times

from .move import FreshNoise, Move, Moved, begin_at, chain, chain_to_data, visited_times

SHORT = 15  # steps: with fewer, the last one is better of first order
NEARLY_NOISE = 2.0**-24  # the reference's alpha of pure noise


class MultistepDPM:
    def __init__(self, settings: Denoising, prediction: Prediction) -> None:
        self.settings, self.prediction = settings, prediction
        self.before: tuple[Tensor, NoiseLevel] | None = None  # the estimate of the step before, and its level

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        source, target = move.source, move.target
        sample = clipped(estimated(output, state, source, self.prediction), self.settings.clip).sample
        before, self.before = self.before, (sample, source)
        step = log_ratio(target) - log_ratio(source)
        fall = torch.exp(-step) - 1
        grown = target.signal * fall
        first_order = target.noise / source.noise * state - grown * sample
        if before is None or self.settings.order == 1 or (move.last and self.ends_first_order(target)):
            return Moved(first_order, sample)
        earlier, level = before
        ratio = (log_ratio(source) - log_ratio(level)) / step
        slope = 1 / ratio * (sample - earlier)
        if self.settings.correction == "midpoint":
            return Moved(first_order - 0.5 * grown * slope, sample)
        return Moved(first_order + target.signal * (fall / step + 1) * slope, sample)

    def ends_first_order(self, target: NoiseLevel) -> bool:
        short = self.settings.steps < SHORT and self.settings.first_order_end == "short"
        return bool(target.noise == 0) or short or self.settings.first_order_end == "always"


def log_ratio(level: NoiseLevel) -> Tensor:
    return torch.log(level.signal) - torch.log(level.noise)


def dpm_moves(alphas: Tensor, settings: Denoising) -> list[Move]:
    if settings.spacing == "trailing":
        times = visited_times(settings, len(alphas))
    else:
        times = interval_times(settings.spacing, settings.steps, len(alphas), settings.offset)
    first = begin_at(settings.steps, settings.strength, settings.reference)
    times = times[first:]
    if not settings.reference:
        return chain_to_data(times, alphas, first)
    sigmas = reference_sigmas(alphas)
    final = sigmas[0] if settings.final == "first" else sigmas.new_zeros(())
    return chain(times, [level_of_sigma(sigma) for sigma in (*sigmas[times], final)], first)


def reference_sigmas(alphas: Tensor) -> Tensor:
    """(t,) -> (t,), finite"""
    alphas = torch.where(alphas == 0, NEARLY_NOISE, alphas)
    return ((1 - alphas) / alphas) ** 0.5
