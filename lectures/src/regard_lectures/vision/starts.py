"""Shares of right answers as bars, with a dot for each start, and beside them the losses while learning."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard_lectures.curves import named
from regard_lectures.figure import Numbers
from regard_lectures.vision.lessons import EVERY, Course


def rates(
    axes: Axes, found: Mapping[str, Sequence[float]], tints: Mapping[str, str], *, chance: float | None = None
) -> None:
    """One bar for each name, from the top; the mean is written at its end, chance is a dashed line."""
    for i, (name, shares) in enumerate(found.items()):
        axes.barh(i, fmean(shares), 0.66, color=tints[name])
        said = style.percent(fmean(shares), 1)
        inside = min(shares) > 0.22  # room beside the line of chance
        x, side = (min(shares) - 0.025, "right") if inside else (0.012, "left")
        axes.text(x, i, said, ha=side, va="center", color="white", weight="bold", size=12)
        axes.plot(shares, [i] * len(shares), "o", color=style.INK, ms=4.5)
    if chance is not None:
        axes.axvline(chance, color=style.LINE, lw=1.2, ls=(0, (4, 3)))
        axes.text(chance, len(found) - 0.45, "chance", ha="center", va="top", size=9.5, color=style.SOFT)
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlim=(0, 1.02), ylim=(len(found) - 0.5, -0.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11.5, color=style.INK)


def learned(
    figure: Figure, numbers: Numbers, tints: Mapping[str, str], course: Course, losses: tuple[float, float], wide: float
) -> Axes:
    """What ``class_of`` has found. -> where the bars are"""
    left, right = figure.subplots(1, 2)
    rates(left, {name: numbers[name]["right"] for name in tints}, tints, chance=0.1)
    left.set_title("labelled rightly")
    steps = [EVERY * (i + 1) for i in range(course.steps // EVERY)]
    right.set_ylim(*losses)
    named(right, {name: (steps, numbers[name]["loss"]) for name in tints}, tints, wide=wide)
    right.set_title("loss")
    right.set_xlabel("steps")
    return left


def ahead(one: Sequence[float], other: Sequence[float]) -> float:
    """Points between the means."""
    return 100 * (fmean(one) - fmean(other))


def leads(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Points between them in each start."""
    return [100 * (a - b) for a, b in zip(one, other, strict=True)]
