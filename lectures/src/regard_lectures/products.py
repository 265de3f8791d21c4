"""Matrices and their products, drawn from left to right around one height. Lengths are inches."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from regard import style

CELL = 0.21


def matrix(
    axes: Axes,
    x: float,
    y: float,
    values: Sequence[Sequence[float]],
    name: str,
    tint: str,
    *,
    cell: float = CELL,
    limit: float | None = None,
) -> float:
    """Centred at height y, its name above and its shape below. -> where its right edge is"""
    rows, columns = len(values), len(values[0])
    top, middle = y + cell * rows / 2, x + cell * columns / 2
    style.cells(axes, x, top, values, cell, tint=tint, limit=limit)
    style.write(
        axes, middle, top + 0.19, name, size=15 if "$" in name else 12, color=tint if tint != style.EDGE else style.INK
    )
    style.write(axes, middle, top - cell * rows - 0.15, f"{rows} × {columns}", size=9, color=style.SOFT)
    return x + cell * columns


def sign(axes: Axes, x: float, y: float, text: str, *, room: float = 0.44) -> float:
    """A sign after x. -> where the next matrix begins"""
    style.write(axes, x + room / 2, y, text, size=18, color=style.SOFT)
    return x + room


def step(axes: Axes, x: float, y: float, text: str, *, room: float = 0.94) -> float:
    """An arrow after x that says what is done. -> where the next matrix begins"""
    style.arrow(axes, (x + 0.08, y), (x + room - 0.08, y))
    style.write(axes, x + room / 2 - 0.02, y + 0.15, text, size=9.5, color=style.SOFT)
    return x + room


def turned(values: Sequence[Sequence[float]]) -> list[list[float]]:
    """Rows become columns."""
    return [list(column) for column in zip(*values, strict=True)]


def bracket(axes: Axes, x: float, y: float, text: str, *, size: float = 46) -> None:
    axes.text(x, y, text, size=size, va="center", ha="center", family=style.SERIF, color=style.SOFT)
