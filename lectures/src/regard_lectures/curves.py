"""Curves of one kind on one chart, each named at its end; names that would meet stand apart."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from regard import style
from regard_lectures.toys import means

APART = 0.068  # of the height of a chart, so that two lines of type do not touch


def named(
    axes: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    tints: Mapping[str, str],
    *,
    wide: float = 0.4,
) -> None:
    """x and y for each name; ``wide`` is the room for the names, as a share of the longest curve. Limits that are set
    before stay."""
    for name, (x, y) in curves.items():
        axes.plot(x, y, color=tints[name])
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    end = max(x[-1] for x, _ in curves.values())
    axes.set_xlim(0, end * (1 + wide))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= end])
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    gap = APART * (high - low)
    ends = spread({name: y[-1] for name, (_, y) in curves.items()}, gap)
    up = max(low + gap / 2 - min(ends.values()), 0.0)  # none stands on the axis
    for name, place in ends.items():
        style.end_label(axes, end, place + up, name, tints[name], size=10.5)


def named_means(
    axes: Axes,
    x: Sequence[float],
    starts: Mapping[str, Sequence[Sequence[float]]],
    tints: Mapping[str, str],
    *,
    wide: float = 0.4,
) -> None:
    """For each name the curves of its starts, thin, and their mean, which has the name at its end."""
    for name, curves in starts.items():
        for y in curves:
            axes.plot(x, y, color=tints[name], lw=1, alpha=0.5)
    named(axes, {name: (x, means(curves)) for name, curves in starts.items()}, tints, wide=wide)


def spread(places: Mapping[str, float], gap: float) -> dict[str, float]:
    """Moved up from the lowest on, as far as needed, so that no two are nearer than the gap; their middle stays."""
    order = sorted(places, key=lambda name: places[name])
    moved: dict[str, float] = {}
    last = float("-inf")
    for name in order:
        last = max(places[name], last + gap)
        moved[name] = last
    shift = sum(places.values()) / len(places) - sum(moved.values()) / len(moved)
    return {name: place + shift for name, place in moved.items()}


def bits(nats: Sequence[float]) -> list[float]:
    return [loss / math.log(2) for loss in nats]
