"""The sampling loop. It hands over after each step, so that progress, previews, looking and stopping are the caller's.

Shapes: b images of any shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .guidance import Denoiser
from .inpainting import KnownPart
from .plan import SOLVERS, Plan
from .solvers.move import FreshNoise, Move, Moved, Solver


@dataclass(frozen=True)
class DrawnStep:
    """What stands after one step."""

    index: int  # 0 to count - 1
    count: int
    time: float  # that the denoiser was told
    state: Tensor  # (b, ...); after the last step, the result
    sample: Tensor  # (b, ...) what the result was estimated to be: a preview


def draw_steps(
    denoise: Denoiser, start: Tensor, plan: Plan, fresh: FreshNoise, known: KnownPart | None = None
) -> Iterator[DrawnStep]:
    """From ``start``, see ``starting_state``. ``fresh`` gives noise by the index of a move, such as ``ImageNoise``.
    Nothing is kept of a step but what the solver looks back at: at most four tensors."""
    solver, state = SOLVERS[plan.settings.solver].begin(plan.settings, plan.prediction), start
    for index, move in enumerate(plan.moves):
        found = taken(denoise, solver, state, move, fresh)
        state = found.state if known is None else known.put_back(found.state, move)
        yield DrawnStep(index, len(plan.moves), move.time, state, found.sample)


@torch.no_grad()  # not around the loop: a generator would leave it in force while the caller works
def taken(denoise: Denoiser, solver: Solver, state: Tensor, move: Move, fresh: FreshNoise) -> Moved:
    kind = torch.long if isinstance(move.time, int) else torch.float32
    time = torch.full((len(state),), move.time, dtype=kind, device=state.device)
    return solver.step(denoise(state, time), state, move, fresh)


def drawn(denoise: Denoiser, start: Tensor, plan: Plan, fresh: FreshNoise, known: KnownPart | None = None) -> Tensor:
    """The same to its end -> (b, ...)"""
    state = start
    for step in draw_steps(denoise, start, plan, fresh, known):
        state = step.state
    return state
