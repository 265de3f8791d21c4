"""DDPM: Denoising Diffusion Probabilistic Models. Ho et al. (2020), https://arxiv.org/abs/2006.11239

Ancestral sampling: x' is drawn from the posterior q(x' | x, x_0) of the estimated sample (equations 6 and 7), with the
mean sqrt(alpha') beta / (1 - alpha) x_0 + sqrt(alpha / alpha') (1 - alpha') / (1 - alpha) x, beta = 1 - alpha / alpha'.
Its variance is that of the posterior ("small") or beta ("large"): the two extremes of section 3.2.

Differs from the reference: no noise is added in the step that ends at the data (algorithm 2, line 3). The reference
adds it unless that step begins at time step 0: with "large", all of beta.
"""

from torch import Tensor

from regard.sample.prediction import Prediction, clipped, estimated
from regard.sample.settings import Denoising

from .ddim import exchanged
from .move import FreshNoise, Move, Moved, begin_at, chain_to_data, visited_times

LEAST = 1e-20  # variance of the reference


class DDPM:
    def __init__(self, settings: Denoising, prediction: Prediction) -> None:
        self.settings, self.prediction = settings, prediction

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        sample = clipped(estimated(output, state, move.source, self.prediction), self.settings.clip).sample
        source, target = move.source.alpha, move.target.alpha
        kept = source / target
        mean = target**0.5 * (1 - kept) / (1 - source) * sample + kept**0.5 * (1 - target) / (1 - source) * state
        if move.last and not (self.settings.reference and move.time > 0):
            return Moved(mean, sample)
        variance = exchanged(move).clamp(min=LEAST) if self.settings.variance == "small" else 1 - kept
        return Moved(mean + variance**0.5 * fresh(move.index), sample)


def ddpm_moves(alphas: Tensor, settings: Denoising) -> list[Move]:
    times = visited_times(settings, len(alphas))
    first = begin_at(settings.steps, settings.strength, settings.reference)
    return chain_to_data(times[first:], alphas, first)
