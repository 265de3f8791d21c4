"""All settings of making images out of noise."""

from dataclasses import dataclass
from typing import Literal

from regard.nn.arguments import explain_methods
from regard.nn.config import not_above_zero, not_at_least, not_finite, not_one_of, not_positive, refuse

from .spacing import SPACINGS, Spacing

SolverName = Literal["ddpm", "ddim", "dpm-solver++", "plms", "euler"]
SOLVER_NAMES = ("ddpm", "ddim", "dpm-solver++", "plms", "euler")
LIMITED_BY = {"eta": ("ddim", 0.0), "variance": ("ddpm", "small"), "order": ("dpm-solver++", 2)}
LIMITED_BY |= {"correction": ("dpm-solver++", "midpoint"), "first_order_end": ("dpm-solver++", "short")}
CLIPPING = ("ddpm", "ddim")  # the solvers of the reference that can


@explain_methods
@dataclass(frozen=True, kw_only=True)
class Denoising:
    """Settings of drawing: the solver, its steps, and how much it follows what was asked."""

    solver: SolverName = "dpm-solver++"
    steps: int = 20  # number of steps
    spacing: Spacing = "trailing"  # which time steps of training are visited
    offset: int = 0  # added to the time steps of the spacing "leading"; others have none
    guidance: float = 1.0  # classifier-free guidance: 1 follows the prompt as trained, more follows it more
    rescale: float = 0.0  # share of the guided prediction that is scaled back to the spread of an unguided one
    strength: float = 1.0  # of an image to begin with: the share of the steps that change it
    clip: float | None = None  # largest absolute value of an estimated sample; none for latents
    eta: float = 0.0  # ddim: share of fresh noise in each step; 0 is deterministic, 1 is like ddpm
    variance: Literal["small", "large"] = (
        "small"  # ddpm: of the fresh noise, of the posterior or of the forward process
    )
    order: int = 2  # dpm-solver++: how many estimates a step uses
    correction: Literal["midpoint", "heun"] = "midpoint"  # dpm-solver++: how a second-order step uses them
    first_order_end: Literal["short", "always", "never"] = "short"  # dpm-solver++: a last step that does not end clean
    final: Literal["data", "first"] = "data"  # with reference: where the last step ends; else always at the data
    reference: bool = False  # reproduce diffusers 0.42.1 number by number, its faults included

    def __post_init__(self) -> None:
        wrong = not_one_of(SOLVER_NAMES, self, "solver") + not_one_of(SPACINGS, self, "spacing")
        wrong += not_one_of(("small", "large"), self, "variance")
        wrong += not_one_of(("midpoint", "heun"), self, "correction") + not_one_of(("data", "first"), self, "final")
        wrong += not_one_of(("short", "always", "never"), self, "first_order_end")
        wrong += not_positive(self, "steps") + not_at_least(0, self, "offset", "guidance", "rescale", "eta")
        wrong += not_above_zero(self, "strength", "clip") + not_finite(self, "guidance", "clip")
        wrong += [f"order = {self.order} is not 1 or 2"] if self.order not in (1, 2, None) else []
        wrong += [
            f"{key} = {value} is greater than 1"
            for key in ("rescale", "strength", "eta")
            if (value := getattr(self, key)) is not None and value > 1
        ]
        for key, (solver, usual) in LIMITED_BY.items():
            if getattr(self, key) not in (usual, None) and self.solver not in (solver, None):
                wrong += [f"{key} = {getattr(self, key)!r} is only for the solver {solver!r}, not {self.solver!r}"]
        if self.reference and self.clip is not None and self.solver not in (*CLIPPING, None):
            wrong += [f"clip = {self.clip}: the reference's solver {self.solver!r} does not clip"]
        if self.reference and self.final == "first" and self.solver in ("ddpm", "euler"):
            wrong += [f"final = 'first' with the solver {self.solver!r} of the reference is not supported"]
        refuse(wrong)
