"""Maps in the terminal: one cell a weight, darker or brighter the more is looked at."""

import itertools
import math
import shutil
import unicodedata
from collections.abc import Sequence

SHADES = " ·░▒▓█"  # for pipes and files, where there is no colour
PAPER, INK = (246, 245, 250), (49, 27, 146)  # weight is indigo, as in every figure and on the page
CELL = 2  # characters wide, so that a cell is about square
BESIDE, ABOVE = 24, 16  # characters of a word beside the map, and above it: what is longer is cut


def terminal_text(text: str) -> str:
    """What cannot harm a terminal: a sign for what does not print."""
    return "".join(x if x.isprintable() else "·" for x in text)


def map_width() -> int:
    """Columns of the terminal that are left beside the two with which a map's lines begin."""
    return max(shutil.get_terminal_size().columns - 2, 1)


def heat_map_lines(
    weights: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    colour: bool,
    width: int,
) -> list[str]:
    """Lines of a heat map in the terminal; rows are queries, columns are keys with their labels vertically above.

    The scale is the square root of the weight from 0 to 1, the same for all maps, so that they can be compared. Maps
    wider than ``width`` are split into parts, one below the other.
    """
    several = column_ranges(rows, columns, width)
    lines: list[str] = []
    for part in several:
        if len(several) > 1:
            lines += [""] if lines else []
            lines += [f"columns {part.start + 1} to {part.stop} of {len(columns)}:", ""]
        some = slice(part.start, part.stop)
        lines += block([line[some] for line in weights], rows, columns[some], margin(rows, width), colour)
    return lines


def column_ranges(rows: Sequence[str], columns: Sequence[str], width: int) -> list[range]:
    """The columns that stand side by side, about as many in each part."""
    most = (width - margin(rows, width) - 1) // CELL
    count = math.ceil(len(columns) / max(most, 1)) or 1
    edges = [len(columns) * i // count for i in range(count + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(edges)]


def margin(rows: Sequence[str], width: int) -> int:
    """Characters that the words beside the map take: a third of the terminal at most."""
    longest = max((text_width(row) for row in rows), default=0)
    return min(longest, BESIDE, max(width // 3, 1))


def block(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], room: int, colour: bool
) -> list[str]:
    above = [upright(column) for column in columns]
    height = max(map(len, above), default=0)
    lines = []
    for i in range(height):
        letters = ("" if i < height - len(word) else word[i - height + len(word)] for word in above)
        lines.append(" " * (room + 1) + "".join(padded(letter, CELL) for letter in letters))
    for label, line in zip(rows, weights, strict=True):
        short = cut(label, room)
        cells = "".join(cell(weight, colour) for weight in line)
        lines.append(f"{' ' * (room - text_width(short))}{short} {cells}")
    return [line.rstrip() if not colour else line for line in lines]


def cell(weight: float, colour: bool) -> str:
    level = math.sqrt(min(max(weight, 0.0), 1.0))
    if not colour:
        return SHADES[round(level * (len(SHADES) - 1))] * CELL
    red, green, blue = (round(a + (b - a) * level) for a, b in zip(PAPER, INK, strict=True))
    return f"\x1b[48;2;{red};{green};{blue}m{' ' * CELL}\x1b[0m"


# Letters: some are two characters wide, and some stand upon the one before --------------------------


def text_width(text: str) -> int:
    """Characters that it takes in a terminal."""
    return sum(map(across, text))


def across(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def cut(text: str, width: int) -> str:
    """Its beginning and "…", if the whole is too wide."""
    if text_width(text) <= width:
        return text
    kept = ""
    for letter in text:
        if text_width(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…"


def upright(word: str) -> list[str]:
    """Letter below letter, each with its accents."""
    letters: list[str] = []
    for letter in word:
        if letters and not across(letter):
            letters[-1] += letter
        else:
            letters.append(letter)
    return letters if len(letters) <= ABOVE else [*letters[: ABOVE - 1], "⋮"]
