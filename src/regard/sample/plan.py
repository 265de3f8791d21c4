"""The plan of a run: which moves a solver takes, before anything is computed."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .prediction import PREDICTIONS, Estimate, Prediction, moved
from .schedules import NoiseSchedule, alphas, reference_alphas
from .settings import Denoising
from .solvers.ddim import DDIM, ddim_moves
from .solvers.ddpm import DDPM, ddpm_moves
from .solvers.dpm import MultistepDPM, dpm_moves
from .solvers.euler import EulerSolver, euler_moves
from .solvers.move import Move, Solver
from .solvers.plms import PLMS, plms_moves


@dataclass(frozen=True)
class SolverRow:
    """What stands in a file of solvers/."""

    begin: Callable[[Denoising, Prediction], Solver]  # for each run anew
    moves: Callable[[Tensor, Denoising], list[Move]]


SOLVERS = {
    "ddpm": SolverRow(DDPM, ddpm_moves),
    "ddim": SolverRow(DDIM, ddim_moves),
    "dpm-solver++": SolverRow(MultistepDPM, dpm_moves),
    "plms": SolverRow(PLMS, plms_moves),
    "euler": SolverRow(EulerSolver, euler_moves),
}


@dataclass(frozen=True)
class Plan:
    """All moves of a run, in order."""

    moves: tuple[Move, ...]
    prediction: Prediction
    settings: Denoising


def plan_steps(schedule: NoiseSchedule, prediction: Prediction, settings: Denoising) -> Plan:
    """Raises a ValueError where these cannot be combined."""
    if prediction not in PREDICTIONS:
        raise ValueError(f"prediction = {prediction!r} is not one of {', '.join(PREDICTIONS)}")
    levels = reference_alphas(schedule) if settings.reference else alphas(schedule)
    moves = SOLVERS[settings.solver].moves(levels, settings)
    if any(move.source.signal == 0 for move in moves):
        check_pure_noise(prediction, settings)
    if settings.reference and settings.solver == "plms" and prediction == "sample":
        raise ValueError("the reference's solver 'plms' cannot be used with prediction = 'sample'")
    return Plan(tuple(moves), prediction, settings)


def check_pure_noise(prediction: Prediction, settings: Denoising) -> None:
    """Where nothing is left of the sample, it cannot be computed from the noise."""
    if prediction == "noise" or settings.solver == "plms":
        told = "prediction = 'noise'" if prediction == "noise" else "solver = 'plms'"
        raise ValueError(
            f"{told} cannot begin at a time step of pure noise (terminal = 'zero'); use prediction = 'velocity' with "
            "another solver, or spacing = 'leading'"
        )


def starting_state(plan: Plan, noise: Tensor, sample: Tensor | None = None) -> Tensor:
    """(b, ...) -> (b, ...): pure noise, or a sample at the noise level where the plan begins"""
    level = plan.moves[0].source
    if sample is not None:
        return moved(Estimate(sample, noise), level)
    settings = plan.settings
    if settings.reference and settings.solver == "euler" and settings.spacing != "leading":
        return level.noise * noise
    return noise
