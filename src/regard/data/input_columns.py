"""Which columns of a table a model is given: those that are named, those of its training, those of the usual name."""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import InputError, first_of

from .column_names import known_name
from .encodings import encoding_of, utf8_file
from .input_rows import Column, InputTable, json_fields
from .lines import Lines
from .table_format import (
    TableFormat,
    file_format,
    find_delimiter,
    find_format,
    has_quotes,
    sample_rows,
    usual_delimiter,
)
from .tables import opening

TEXT = ("txt",)  # a text in each line
ENDINGS = ("csv", "tsv", "jsonl", "json", *TEXT)


def open_inputs(
    path: Path, roles: Sequence[str], asked: Sequence[Column] = (), trained: Sequence[Column] = ()
) -> InputTable:
    """``roles`` say what the model is given, such as ("text",); ``trained`` are the columns of its training data, by
    name where they have any. Where nothing tells which columns these are, it has to be said."""
    if file_format(path) in TEXT and not asked:
        return InputTable(path, TableFormat("text", encoding_of(path)))
    columns = asked or found_columns(path, roles, trained)
    roles = [*roles, *[roles[-1]] * len(columns)][: len(columns)]
    return InputTable(path, find_format(path, columns, roles), columns)


def found_columns(path: Path, roles: Sequence[str], trained: Sequence[Column]) -> Sequence[Column]:
    names, has_columns = first_names(path)
    if trained and all(column in names for column in trained):
        return trained
    count = len(trained) or len(roles)
    roles = [*roles, *[roles[-1]] * (count - len(roles))]
    different = list(dict.fromkeys(roles))
    known = {role: [name for name in names if known_name(name, role)] for role in different}
    if all(len(known[role]) == roles.count(role) for role in different):
        return [name for role in different for name in known[role]]
    if trained and has_columns and all(isinstance(column, int) and column <= len(names) for column in trained):
        return trained
    if has_columns and len(names) == count:
        return list(range(1, count + 1))
    told = f"columns {', '.join(map(str, trained))} in training, " if trained else ""
    raise InputError(
        f"it is not known which column holds the {' and which the '.join(different)}",
        where=str(path),
        got=told + (", ".join(first_of([repr(name) for name in names])) or "an empty table"),
        fix="name it with --column, or give its number",
    )


def first_names(path: Path) -> tuple[list[str], bool]:
    """What stands in the first row, which may be names, and whether there are columns at all: JSON lines have keys."""
    lines = Lines(utf8_file(path, encoding_of(path)), str(path))
    if file_format(path) in ("jsonl", "json"):
        first = opening(lines)
        return list(json_fields(lines[first].decode("utf-8", "replace"))) if first < len(lines) else [], False
    usual = usual_delimiter(path)
    delimiter = find_delimiter(lines, (1, 2), usual)
    rows = sample_rows(lines, delimiter, quoted=has_quotes(delimiter, usual))
    return [cell.strip() for cell in rows[0]] if rows else [], True
