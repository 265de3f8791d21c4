"""Which of the time steps of training a short plan visits, from noisy to clean.

Lin et al. (2023), https://arxiv.org/abs/2305.08891, table 2: only "trailing" and "linspace" begin at the last time
step, where the training ended; "leading" begins below it, though its first image is pure noise.
"""

from itertools import pairwise
from math import ceil
from typing import Literal

Spacing = Literal["leading", "trailing", "linspace"]
SPACINGS = ("leading", "trailing", "linspace")


def spaced_times(spacing: Spacing, steps: int, total: int, offset: int = 0) -> list[int]:
    """``steps`` of the time steps 0 to ``total`` - 1, the noisiest first; ``offset`` is added to those of "leading"."""
    check_count(steps, total)
    if spacing == "leading":
        return checked([i * (total // steps) + offset for i in reversed(range(steps))], spacing, total)
    if spacing == "trailing":
        return [round(total - i * total / steps) - 1 for i in range(steps)]
    return [round(i) for i in reversed(even(steps, total))]


def interval_times(spacing: Spacing, steps: int, total: int, offset: int = 0) -> list[int]:
    """The same for a solver whose last step is not to begin at time step 0, which is nearly clean: the beginnings of
    ``steps`` intervals."""
    check_count(steps, total)
    if spacing == "trailing":
        return spaced_times(spacing, steps, total)
    if spacing == "leading":
        found = [i * (total // (steps + 1)) + offset for i in range(steps, 0, -1)]
    else:
        found = [round(i) for i in even(steps + 1, total)[:0:-1]]
    return checked(found, spacing, total)


def reference_times(spacing: Spacing, steps: int, total: int, offset: int = 0) -> list[int]:
    """Those of ``spaced_times`` as diffusers 0.42.1 computes them: "trailing" by adding up rounded distances, which
    gives other times where a half is rounded, and for 61 of 1000 steps and others one step too many; a single step of
    "linspace" at the clean end."""
    if spacing == "leading" or (spacing == "linspace" and steps > 1):
        return spaced_times(spacing, steps, total, offset)
    check_count(steps, total)
    if spacing == "linspace":
        return [0]
    distance = total / steps
    back = (total - distance) - total
    times = [round(total + i * back) - 1 for i in range(ceil(total / distance))]
    if times[-1] < 0:
        raise ValueError(f"with steps = {steps} and spacing = 'trailing' the reference visits a time step -1")
    return times


def even(count: int, total: int) -> list[float]:
    """``count`` places from 0 to ``total`` - 1, at equal distances; a single one is the last."""
    if count == 1:
        return [float(total - 1)]
    distance = (total - 1) / (count - 1)
    return [*(i * distance for i in range(count - 1)), float(total - 1)]


def check_count(steps: int, total: int) -> None:
    if steps < 1:
        raise ValueError(f"steps = {steps} must be at least 1")
    if steps > total:
        raise ValueError(f"steps = {steps} is greater than the {total} time steps of the noise schedule")


def checked(times: list[int], spacing: str, total: int) -> list[int]:
    """Each time step once, and none that was not trained."""
    steps = len(times)
    if times[0] >= total:
        raise ValueError(
            f"{steps} steps with spacing {spacing!r} and this offset begin at time step {times[0]}, but the "
            f"last one is {total - 1}; use fewer steps or a smaller offset"
        )
    if any(one <= other for one, other in pairwise(times)):
        raise ValueError(
            f"{steps} steps with spacing {spacing!r} visit a time step twice; use fewer steps or 'trailing'"
        )
    return times
