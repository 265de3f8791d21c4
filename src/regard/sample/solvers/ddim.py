"""DDIM: Denoising Diffusion Implicit Models. Song et al. (2021), https://arxiv.org/abs/2010.02502

x' = sqrt(alpha') x_0 + sqrt(1 - alpha' - s^2) noise + s z, with s = eta sqrt((1 - alpha') / (1 - alpha) (1 - alpha /
alpha')) (equations 12 and 16): the estimated sample and noise at the next level, and a share of the noise exchanged for
fresh one.

Differs from the reference: a step ends where the next begins, though the time steps have unequal distances (the
reference always goes back by T // N, and ends beside its own plan); the last step ends at the data; where samples are
clipped, the noise is that which explains the image with the clipped sample.
"""

from torch import Tensor

from regard.sample.prediction import NoiseLevel, Prediction, clipped, estimated, explained, level_of, moved
from regard.sample.settings import Denoising

from .move import FreshNoise, Move, Moved, begin_at, chain_to_data, visited_times


class DDIM:
    def __init__(self, settings: Denoising, prediction: Prediction) -> None:
        self.settings, self.prediction = settings, prediction

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        estimate = clipped(estimated(output, state, move.source, self.prediction), self.settings.clip)
        if self.settings.clip is not None and not self.settings.reference:
            estimate = explained(estimate, state, move.source)
        eta = self.settings.eta
        if not eta:
            return Moved(moved(estimate, move.target), estimate.sample)
        spread = eta * exchanged(move) ** 0.5
        alpha = move.target.alpha
        kept = NoiseLevel(alpha, move.target.signal, (1 - alpha - spread**2) ** 0.5)
        return Moved(moved(estimate, kept) + spread * fresh(move.index), estimate.sample)


def exchanged(move: Move) -> Tensor:
    """() the variance of the posterior of the target, given the sample and the source; DDPM's "small" one"""
    source, target = move.source.alpha, move.target.alpha
    return (1 - target) / (1 - source) * (1 - source / target)


def ddim_moves(alphas: Tensor, settings: Denoising) -> list[Move]:
    times = visited_times(settings, len(alphas))
    first = begin_at(settings.steps, settings.strength, settings.reference)
    if not settings.reference:
        return chain_to_data(times[first:], alphas, first)
    return backwards(times[first:], alphas, settings, first)


def backwards(times: list[int], alphas: Tensor, settings: Denoising, first: int) -> list[Move]:
    """As the reference: always by the same distance, wherever the next step begins."""
    back = len(alphas) // settings.steps
    return [
        Move(first + i, t, level_of(alphas[t]), reference_level(t - back, alphas, settings), i == len(times) - 1)
        for i, t in enumerate(times)
    ]


def reference_level(time: int, alphas: Tensor, settings: Denoising) -> NoiseLevel:
    """Before the first time step there is either no noise, or that of the first."""
    if time >= 0:
        return level_of(alphas[time])
    return level_of(alphas[0] if settings.final == "first" else alphas.new_ones(()))
