"""What every solver is given and gives: a move from one noise level to the next.

Shapes: b images of any shape.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from regard.sample.prediction import NoiseLevel, level_of
from regard.sample.settings import Denoising
from regard.sample.spacing import reference_times, spaced_times

FreshNoise = Callable[[int], Tensor]  # the index of a move -> (b, ...), normal, the same whenever it is asked


@dataclass(frozen=True)
class Move:
    """From one noise level to another."""

    index: int  # among all moves of the plan, those left out at the beginning included
    time: float  # what the denoiser is told; an integer but where the reference interpolates
    source: NoiseLevel
    target: NoiseLevel
    last: bool


@dataclass(frozen=True)
class Moved:
    state: Tensor  # (b, ...) at the level of the target
    sample: Tensor  # (b, ...) what the clean images are estimated to be


class Solver(Protocol):
    """Of one run: it may remember what it saw."""

    def step(self, output: Tensor, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
        """What the denoiser said of ``state`` -> the state at the target"""
        ...


def chain(times: Sequence[int], levels: Sequence[NoiseLevel], first: int = 0) -> list[Move]:
    """Each move ends where the next begins, the last at ``levels[-1]``; one level more than there are times."""
    count = len(times)
    return [Move(first + i, t, levels[i], levels[i + 1], i == count - 1) for i, t in enumerate(times)]


def chain_to_data(times: Sequence[int], alphas: Tensor, first: int = 0) -> list[Move]:
    """The same through the levels of a schedule; the last move ends at the data."""
    return chain(times, [*(level_of(alphas[t]) for t in times), level_of(alphas.new_ones(()))], first)


def visited_times(settings: Denoising, total: int) -> list[int]:
    times = reference_times if settings.reference else spaced_times
    return times(settings.spacing, settings.steps, total, settings.offset)


def begin_at(steps: int, strength: float, reference: bool) -> int:
    """How many steps are left out of a run that begins with an image. The reference rounds down, and may leave none."""
    taken = int(steps * strength) if reference else max(round(steps * strength), 1)
    if taken < 1:
        raise ValueError(f"strength = {strength} leaves none of {steps} steps")
    return steps - taken
