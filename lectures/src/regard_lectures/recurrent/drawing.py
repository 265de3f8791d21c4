"""What the diagrams of recurrent networks are made of: states, their numbers, and the wires between them."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from regard import style

GREY: dict[str, Any] = {"edge": style.SOFT, "fill": style.mix(style.SOFT, 0.12)}
LIT: dict[str, Any] = {"edge": style.WEIGHT, "fill": style.WEIGHT_WASH}
NUMBERED: dict[str, Any] = {"cell": (0.42, 0.19), "digits": 2}  # a column whose numbers can be read
WIDE, TALL = 0.56, 0.4  # of a state


def state(axes: Axes, x: float, y: float, text: str, look: dict[str, Any] = GREY, *, wide: float = WIDE) -> None:
    """A box centred at (x, y)."""
    style.box(axes, x - wide / 2, y - TALL / 2, wide, TALL, text, size=13, **look)


def column(
    axes: Axes,
    x: float,
    y: float,
    values: Sequence[float],
    *,
    tint: str = style.WEIGHT,
    limit: float = 1.0,
    cell: tuple[float, float] = (0.34, 0.17),
    digits: int | None = None,
) -> None:
    """A vector, centred at (x, y): the larger a number, the stronger its tint; negative ones are grey."""
    corner = x - cell[0] / 2, y + len(values) * cell[1] / 2
    rows = [[value] for value in values]
    style.cells(axes, *corner, rows, cell, tint=tint, limit=limit, digits=digits, size=8.5)


def word(axes: Axes, x: float, y: float, text: str, *, color: str = style.INK, size: float = 15) -> None:
    style.write(axes, x, y, text, family=style.SERIF, size=size, color=color, va="baseline")


def signed(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def sign_at(axes: Axes, x: float, y: float, sign: str, *, lit: bool = False) -> None:
    """Where two things are multiplied or added."""
    tint = style.WEIGHT if lit else style.INK
    axes.add_patch(Circle((x, y), 0.11, fc=style.WEIGHT_WASH if lit else "white", ec=tint, lw=1.3, zorder=5))
    style.write(axes, x, y - 0.005, sign, size=11, color=tint, zorder=6)
