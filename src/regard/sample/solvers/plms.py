"""PLMS: pseudo linear multistep. Liu et al. (2022), https://arxiv.org/abs/2202.09778

A step of DDIM along a noise that is extrapolated from the last four estimates by the weights of Adams and Bashforth.
In place of the paper's three Runge-Kutta steps of four estimates each, the first step is taken twice, the second time
along the mean of the noises at both of its ends (as Stable Diffusion's own sampler): a run asks the denoiser once more
than it has steps. The sample is never used itself, so rounding grows where hardly anything is left of it (the end of a
cosine schedule).

Differs from the reference: moves end where the next begin, also in a run that begins in the middle (see ddim.py);
estimates of the noise are extrapolated whatever the denoiser predicts, as the paper's are (the reference extrapolates
velocities, which change along the way even where the noise does not).
"""

from torch import Tensor

from regard.sample.prediction import NoiseLevel, Prediction, clipped, estimated, explained, level_of
from regard.sample.settings import Denoising

from .ddim import reference_level
from .move import FreshNoise, Move, Moved, begin_at, chain_to_data, visited_times

WEIGHTS = ((24,), (36, -12), (46, -32, 10), (55, -59, 37, -9))  # of the newest first, in 24ths


class PLMS:
    def __init__(self, settings: Denoising, prediction: Prediction) -> None:
        self.settings, self.prediction = settings, prediction
        self.seen: list[Tensor] = []  # noises (the reference: what the denoiser said), the newest last, at most four
        self.first: Tensor | None = None  # where the first step began
        self.taken = 0

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        self.taken += 1
        again = self.taken == 2  # then the denoiser saw the end of the first step
        found = output if self.settings.reference else self.noise(output, state, move.target if again else move.source)
        if again:
            assert self.first is not None
            state, self.first = self.first, None
            mixed = (found + self.seen[-1]) / 2
        else:
            self.first = state if self.taken == 1 else None
            self.seen = [*self.seen[-3:], found]
            mixed = extrapolated(self.seen)
        if self.settings.reference:
            mixed = estimated(mixed, state, move.source, self.prediction).noise
        return along(state, mixed, move)

    def noise(self, output: Tensor, state: Tensor, level: NoiseLevel) -> Tensor:
        estimate = estimated(output, state, level, self.prediction)
        if self.settings.clip is None:
            return estimate.noise
        return explained(clipped(estimate, self.settings.clip), state, level).noise


def extrapolated(seen: list[Tensor]) -> Tensor:
    """To the middle of the next step. The newest comes last."""
    weights = WEIGHTS[len(seen) - 1]
    total = weights[0] * seen[-1]
    for weight, x in zip(weights[1:], seen[-2::-1], strict=True):
        total = total + weight * x
    return total / 24


def along(state: Tensor, noise: Tensor, move: Move) -> Moved:
    """The paper's transfer function: a step of DDIM, written with the noise alone."""
    source, target = move.source.alpha, move.target.alpha
    weight = source * (1 - target) ** 0.5 + (source * (1 - source) * target) ** 0.5
    found = (target / source) ** 0.5 * state - (target - source) * noise / weight
    return Moved(found, (state - move.source.noise * noise) / move.source.signal)


def plms_moves(alphas: Tensor, settings: Denoising) -> list[Move]:
    times = visited_times(settings, len(alphas))
    first = begin_at(settings.steps, settings.strength, settings.reference)
    if settings.reference:
        return reference_moves([*times[:2], *times[1:]][first:], alphas, settings, first)
    moves = chain_to_data(times[first:], alphas, first)
    if len(moves) == 1:
        return moves
    again = Move(first + 1, moves[1].time, moves[0].source, moves[0].target, False)
    return [moves[0], again, *(Move(m.index + 1, m.time, m.source, m.target, m.last) for m in moves[1:])]


def reference_moves(times: list[int], alphas: Tensor, settings: Denoising, first: int) -> list[Move]:
    back = len(alphas) // settings.steps
    moves = []
    for i, t in enumerate(times):
        start = t + back if i == 1 else t
        ends = reference_level(start - back, alphas, settings)
        moves.append(Move(first + i, t, level_of(alphas[start]), ends, i == len(times) - 1))
    return moves
