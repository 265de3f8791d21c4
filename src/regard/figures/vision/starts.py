"""Shares of right answers as bars, with a dot for each start."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes

from regard import style


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
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlim=(0, 1.02), ylim=(len(found) - 0.5, -0.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11.5, color=style.INK)


def ahead(one: Sequence[float], other: Sequence[float]) -> float:
    """Points between the means."""
    return 100 * (fmean(one) - fmean(other))
