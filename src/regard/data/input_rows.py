"""The rows of a table that a model is asked about, one after the other: all of their fields, and those it is given.

Every row keeps its place: one that cannot be read is there too, with the reason.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .encodings import utf8_file
from .lines import Lines
from .records import RecordLines
from .table_format import TableFormat
from .tables import LONGEST_LINE, JsonKeys, UnfitError, is_text, locate

Column = int | str


class InputRow(NamedTuple):
    line: int  # from 1
    fields: dict[str, Any]  # all that stand in the row, by the names of their columns
    inputs: tuple[str, ...]  # what the model is given; empty where it cannot be
    fault: str  # why


class InputTable:
    """A table, and the columns of it that are read; lines of text have none."""

    def __init__(self, path: Path, form: TableFormat, columns: Sequence[Column] = ()) -> None:
        self.path, self.format, self.columns = path, form, tuple(columns)
        self.lines = Lines(utf8_file(path, form.encoding), str(path))

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.lines.starts[-1])

    def size_before(self, row: InputRow) -> int:
        return int(self.lines.starts[row.line - 1])

    def names(self) -> list[str]:
        """Of all fields; of JSON lines, those that any line has."""
        if self.format.kind == "text":
            return ["text"]
        if self.format.kind == "jsonl":
            return list(dict.fromkeys(name for row in self for name in row.fields))
        first = next(self.records(), None)
        return column_keys(self.format.names or (), len(first[1]) if first else 0)

    def shown(self) -> list[str]:
        """The columns that are read, for people."""
        names = self.format.names or ()
        return [x if isinstance(x, str) else names[x - 1] if x <= len(names) else str(x) for x in self.columns]

    def __iter__(self) -> Iterator[InputRow]:
        if self.format.kind == "text":
            return (row_of(number, {"text": text}, (text,), fault) for number, text, fault in self.texts())
        return self.json_rows() if self.format.kind == "jsonl" else self.column_rows()

    def json_rows(self) -> Iterator[InputRow]:
        form = JsonKeys(tuple(map(str, self.columns)), LONGEST_LINE)
        for number, text, fault in self.texts():
            if text.strip():
                try:
                    inputs = form.split(text.encode("utf-8"))
                except UnfitError as reason:
                    inputs, fault = (), fault or str(reason)
                yield row_of(number, json_fields(text), inputs, fault)

    def column_rows(self) -> Iterator[InputRow]:
        records = self.records()
        if (first := next(records, None)) is None:
            return
        names = list(self.format.names or ())
        keys = column_keys(names, len(first[1]))
        places = [locate(column, names, len(keys), str(self.path)) for column in self.columns]
        for number, cells, fault in records if names else chain([first], records):
            if not fault and len(cells) != len(keys):
                fault = f"{len(cells)} columns instead of {len(keys)}"
            inputs = () if fault else tuple(cells[i] for i in places)
            yield row_of(number, dict(zip(keys, cells, strict=False)), inputs, fault)

    def records(self) -> Iterator[tuple[int, list[str], str]]:
        """Line, fields and fault of each; a blank line is none."""
        if self.format.kind == "csv":
            for record in RecordLines(self.lines, self.format.delimiter).scan():
                yield record.first + 1, record.fields, record.fault
            return
        for number, text, fault in self.texts():
            if text.strip():
                yield number, text.split(self.format.delimiter), fault

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """Line, text and fault of each."""
        for i in range(len(self.lines)):
            if self.lines.starts[i + 1] - self.lines.starts[i] > LONGEST_LINE:
                yield i + 1, "…", f"the line has more than {LONGEST_LINE} bytes"
                continue
            line, fault = self.lines[i], ""
            try:
                is_text(line)
            except UnfitError as reason:
                fault = str(reason)
            yield i + 1, line.decode("utf-8", "replace").replace("\0", "\ufffd"), fault


def row_of(line: int, fields: dict[str, Any], inputs: tuple[str, ...], fault: str) -> InputRow:
    if not fault and not all(text.strip() for text in inputs):
        fault = "the text is empty"
    return InputRow(line, fields, () if fault else inputs, fault)


def json_fields(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def column_keys(names: Sequence[str], count: int) -> list[str]:
    """A name of its own for each column."""
    keys: list[str] = []
    for i in range(count):
        key = (names[i] if i < len(names) else "") or f"column {i + 1}"
        keys.append(key if key not in keys else f"{key} ({i + 1})")
    return keys
