"""Delimited values (RFC 4180): a field in quotes may hold delimiters, quotes written twice, and ends of lines."""

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .encodings import UTF8, utf8_file
from .faults import Fault
from .lines import Lines
from .tables import LONGEST_FIELD, LONGEST_LINE, UnfitError, checked_text, is_text, line_ranges, locate


class Record(NamedTuple):
    """One record between its first line and the one after its last: its fields, or what is wrong with it."""

    first: int
    end: int
    fields: list[str]
    fault: str = ""


Texts = Callable[[int], Iterator[str]]  # the lines from a number on, each with its end


def split_records(texts: Texts, first: int, end: int, delimiter: str) -> Iterator[Record]:
    """All records of some lines; a blank line is none. The line after a bad record is taken for the beginning of the
    next."""
    while first < end:
        start, begin = first, first
        reader = csv.reader(texts(start), delimiter=delimiter, strict=True)
        try:
            for found in reader:
                begin, first = first, start + reader.line_num
                if found:
                    yield Record(begin, first, found)
            return
        except (csv.Error, UnfitError) as reason:
            begin, first = first, max(start + reader.line_num, first + 1)
            yield Record(begin, first, [], str(reason))


class RecordLines:
    """The records of a file, in their order or from any line on."""

    def __init__(self, lines: Lines, delimiter: str = ",") -> None:
        self.lines, self.delimiter = lines, delimiter

    def scan(self, first: int = 0, last: int | None = None) -> Iterator[Record]:
        end = len(self.lines) if last is None else last
        blocks = TextBlocks(self.lines, end)
        return split_records(blocks.texts, first, end, self.delimiter)


class TextBlocks:
    """Lines as text, up to an end, by whole blocks: the last one is kept, for after a bad record one begins anew in the
    middle of it."""

    def __init__(self, lines: Lines, end: int) -> None:
        self.lines, self.end = lines, end
        self.first, self.block = 0, list[bytes | str]()  # bytes: a line that is no text

    def texts(self, first: int) -> Iterator[str]:
        if not self.first <= first < self.first + len(self.block):
            self.first, self.block = first, []
        while first < self.end:
            if first == self.first + len(self.block):
                self.read(first)
            line = self.block[first - self.first]
            yield line if isinstance(line, str) else is_text(line).decode("utf-8")
            first += 1

    def read(self, first: int) -> None:
        """The next block, whose lines end with a newline whatever they ended with."""
        starts = self.lines.starts
        begin, after = next(line_ranges([starts[: self.end + 1]], first))
        if starts[after] - starts[begin] > LONGEST_LINE:
            raise UnfitError(f"the line has more than {LONGEST_LINE} bytes")
        raw = self.lines.block(begin, after)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        self.first = begin
        if "\0" in text:
            self.block = [self.lines[i] + b"\n" for i in range(begin, after)]
        else:
            self.block = [line.removesuffix("\r") + "\n" for line in text.removesuffix("\n").split("\n")]


class Records:
    """Rows: where each good record stands is held in memory, and it is read anew when asked for."""

    def __init__(
        self, lines: Lines, columns: Sequence[int | str], *, header: bool, longest: int, delimiter: str = ","
    ) -> None:
        self.lines, self.longest, self.source = lines, longest, RecordLines(lines, delimiter)
        records = self.source.scan()
        first = next(records, None)
        if first is None:
            raise InputError("the file has no rows", where=lines.name, got="an empty file")
        if first.fault:
            where = f"{lines.name}:{first.first + 1}"
            if b"\r" in lines[first.first]:
                got, fix = "carriage returns within a line", "save the file with line feeds at the ends of lines"
                raise InputError("the first record cannot be read", where=where, got=got, fix=fix)
            raise InputError("the first record cannot be read", where=where, got=first.fault)
        named = header or any(isinstance(column, str) for column in columns)
        names = [field.strip() for field in first.fields] if named else []
        self.count = len(first.fields)
        self.chosen = [locate(column, names, self.count, lines.name) for column in columns]
        self.shown = [f"column {i + 1}" + (f" ({names[i]})" if names else "") for i in self.chosen]
        self.faults: list[Fault] = []
        bounds, lengths = array("q"), array("i")
        for record in records if named else self.source.scan():
            try:
                row = self.row(record)
            except UnfitError as reason:
                self.faults.append(Fault(lines.name, record.first + 1, str(reason)))
                continue
            bounds.extend(record[:2])
            lengths.extend([len(field) if field.isascii() else len(field.encode("utf-8")) for field in row])
        self.bounds: NDArray[np.int64] = np.array(bounds, np.int64).reshape(-1, 2)
        self.lengths: NDArray[np.int32] = np.array(lengths, np.int32).reshape(-1, len(self.chosen))

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, i: int) -> tuple[str, ...]:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        first, last = self.bounds[i].tolist()
        try:
            return self.row(next(self.source.scan(first, last)))
        except (UnfitError, StopIteration):  # it was good when the file was opened
            self.lines.changed()

    def where(self, i: int) -> str:
        return f"{self.lines.name}:{int(self.bounds[i, 0]) + 1}"

    def row(self, found: Record) -> tuple[str, ...]:
        if found.fault:
            raise UnfitError(found.fault)
        if len(found.fields) != self.count:
            raise UnfitError(f"{len(found.fields)} columns instead of {self.count}")
        pairs = zip(self.chosen, self.shown, strict=True)
        return tuple(checked_text(found.fields[i], name, self.longest) for i, name in pairs)


def open_csv(
    path: Path,
    columns: Sequence[int | str],
    *,
    header: bool = False,
    longest: int = LONGEST_FIELD,
    delimiter: str = ",",
    encoding: str = UTF8,
) -> Records:
    """Columns by number, from 1, or by the names in the first record. Then, or with ``header``, it is no row."""
    lines = Lines(utf8_file(path, encoding), str(path))
    return Records(lines, columns, header=header, longest=longest, delimiter=delimiter)
