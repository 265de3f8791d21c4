"""Maps in the terminal: one cell a weight, darker or brighter the more is looked at."""

import math
from collections.abc import Sequence

SHADES = " ·░▒▓█"  # for pipes and files, where there is no colour
PAPER, INK = (246, 245, 250), (49, 27, 146)  # weight is indigo, as in every figure and on the page


def heat(weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, colour: bool) -> list[str]:
    """Lines of a heat map, rows looking at columns, with the columns' words upright above it.

    The scale is the square root of the weight from 0 to 1, never stretched, so that maps can be compared.
    """
    margin = max((len(row) for row in rows), default=0)
    height = max((len(column) for column in columns), default=0)
    lines = []
    for i in range(height):
        letters = (column.rjust(height)[i] for column in columns)
        lines.append(" " * (margin + 1) + "".join(f"{letter} " for letter in letters))
    for label, line in zip(rows, weights, strict=True):
        cells = "".join(cell(weight, colour) for weight in line)
        lines.append(f"{label:>{margin}} {cells}")
    return [line.rstrip() if not colour else line for line in lines]


def cell(weight: float, colour: bool) -> str:
    """Two characters wide, so that a cell is about square."""
    level = math.sqrt(min(max(weight, 0.0), 1.0))
    if not colour:
        return SHADES[round(level * (len(SHADES) - 1))] * 2
    red, green, blue = (round(a + (b - a) * level) for a, b in zip(PAPER, INK, strict=True))
    return f"\x1b[48;2;{red};{green};{blue}m  \x1b[0m"
