"""A table as it was understood, for people: how it is written, which columns are read, and its first rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .column_names import known_name
from .encodings import UTF8
from .rows import Rows
from .table_format import TableFormat, usual_delimiter

FIRST = 3  # rows that are shown
WIDE = 200  # characters of a field
QUOTED = 0.01  # the share of fields in quotes that is told


@dataclass(frozen=True)
class TableReading:
    """One file of a split."""

    split: str
    file: str
    format: str  # in words
    encoding: str
    delimiter: str  # empty where there are no columns
    header: list[str] | None  # the names of all columns, if the first row has them
    columns: list[str]  # those that are read
    first: list[dict[str, str]]  # the first rows: what each field is, and what it says
    notes: tuple[str, ...] = ()
    detected: bool = False  # it is not what the file's name says alone


def reading_of(
    split: str, path: Path, form: TableFormat, rows: Rows, columns: Sequence[int | str], roles: Sequence[str]
) -> TableReading:
    keys = numbered_roles(roles)
    shown = [dict(zip(keys, map(clipped, rows[i]), strict=False)) for i in range(min(len(rows), FIRST))]
    header = None if form.names is None else list(form.names)
    names = [shown_column(column, form) for column in columns]
    notes = (
        *other_columns(split, form, columns, roles),
        *western_note(split, form, path),
        *quote_note(split, form, path),
    )
    found = form.encoding != UTF8 or form.delimiter not in ("", usual_delimiter(path))
    found = found or (header is not None and any(isinstance(column, int) for column in columns))
    file, told = str(path), (form.words(), form.encoding, form.delimiter)
    return TableReading(split, file, *told, header, names, shown, notes, found)


def numbered_roles(roles: Sequence[str]) -> list[str]:
    """Of two texts, the second is "text 2"."""
    return [role if roles.index(role) == i else f"{role} {roles[: i + 1].count(role)}" for i, role in enumerate(roles)]


def clipped(field: str) -> str:
    return field if len(field) <= WIDE else f"{field[: WIDE - 1]}…"


def shown_column(column: int | str, form: TableFormat) -> str:
    if isinstance(column, int) and form.names is not None and column <= len(form.names):
        return f"{column} ({form.names[column - 1]})"
    return str(column)


def other_columns(split: str, form: TableFormat, columns: Sequence[int | str], roles: Sequence[str]) -> list[str]:
    """A column of numbers that has one name, where another has the name that people give to what is asked for."""
    if form.names is None:
        return []
    found = []
    for column, role in zip(columns, roles, strict=True):
        if isinstance(column, str) or known_name(form.names[column - 1], role):
            continue
        if other := [name for name in form.names if known_name(name, role)]:
            found.append(
                f"data.{split}: the {role} is read from column {shown_column(column, form)}; there is {other[0]!r}"
            )
    return found


def quote_note(split: str, form: TableFormat, path: Path) -> list[str]:
    if form.quotes < QUOTED:
        return []
    told = f"{form.quotes:.0%} of the first fields of {path.name} stand in quotes, which are read as letters"
    return [f"data.{split}: {told}; if they are not, name the file .csv"]


def western_note(split: str, form: TableFormat, path: Path) -> list[str]:
    """That letters were guessed is told: another encoding of one byte for each letter would look as good."""
    if form.encoding not in ("latin-1", "cp1252"):
        return []
    return [
        f"data.{split}: {path.name} is not UTF-8 and is read as {form.encoding}; set data.encoding if it is another"
    ]
