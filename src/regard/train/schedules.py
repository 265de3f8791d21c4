"""Learning rates as functions of the step: nothing to save, nothing to lose."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.nn.config import not_at_least, not_positive, not_shares, refuse

from .runfile import setting


@dataclass(frozen=True)
class InverseSqrtSchedule:
    """Vaswani et al. (2017), section 5.3: up in a line, then down with the root of the step. The paper's peak is
    (dim * warmup) ** -0.5."""

    kind: Literal["inverse-sqrt"] = "inverse-sqrt"
    warmup: int = setting(4000, "warm-up: steps until the full learning rate")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "warmup"))

    def factor(self, step: int, steps: int) -> float:
        return min((step + 1) / self.warmup, math.sqrt(self.warmup / (step + 1)))


@dataclass(frozen=True)
class CosineSchedule:
    """Half a cosine down to ``floor`` of the rate (Loshchilov & Hutter, 2017)."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = setting(0, "warm-up: steps until the full learning rate")
    floor: float = setting(0.0, "what is left of the learning rate at the end, as a share")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "warmup"), not_shares(self, "floor"))

    def factor(self, step: int, steps: int) -> float:
        down = 0.5 + 0.5 * math.cos(math.pi * descent(step, steps, self.warmup))
        return rise(step, self.warmup) * (self.floor + (1 - self.floor) * down)


@dataclass(frozen=True)
class LinearSchedule:
    kind: Literal["linear"] = "linear"
    warmup: int = setting(0, "warm-up: steps until the full learning rate")
    floor: float = setting(0.0, "what is left of the learning rate at the end, as a share")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "warmup"), not_shares(self, "floor"))

    def factor(self, step: int, steps: int) -> float:
        return rise(step, self.warmup) * (1 - (1 - self.floor) * descent(step, steps, self.warmup))


@dataclass(frozen=True)
class ConstantSchedule:
    kind: Literal["constant"] = "constant"
    warmup: int = setting(0, "warm-up: steps until the full learning rate")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "warmup"))

    def factor(self, step: int, steps: int) -> float:
        return rise(step, self.warmup)


Schedule = InverseSqrtSchedule | CosineSchedule | LinearSchedule | ConstantSchedule


def rise(step: int, warmup: int) -> float:
    """From 1/warmup at the first step to 1."""
    return min((step + 1) / warmup, 1.0) if warmup else 1.0


def descent(step: int, steps: int, warmup: int) -> float:
    """How far the way down is done: 0 at the end of the warm-up, 1 after the last step."""
    return min(max((step - warmup) / max(steps - warmup, 1), 0.0), 1.0)
