"""Comma-separated values (RFC 4180): a field in quotes may hold commas, quotes written twice, and ends of lines."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .archives import unpacked_file
from .faults import Fault
from .lines import Lines
from .tables import LONGEST, WIDEST, UnfitError, checked, is_text, locate


class Records:
    """Rows: where each good record stands is held in memory, and it is read anew when asked for."""

    def __init__(self, lines: Lines, columns: Sequence[int | str], *, header: bool, longest: int) -> None:
        self.lines, self.longest = lines, longest
        records = self.scan()
        first = next(records, None)
        if first is None:
            raise InputError("the file has no rows", where=lines.name, got="an empty file")
        begin, end, found = first
        if isinstance(found, Fault):
            raise InputError("the first record cannot be read", where=f"{lines.name}:{found.line}", got=found.reason)
        named = header or any(isinstance(column, str) for column in columns)
        names = [field.strip() for field in found] if named else []
        self.count = len(found)
        self.chosen = [locate(column, names, self.count, lines.name) for column in columns]
        self.shown = [f"column {i + 1}" + (f" ({names[i]})" if names else "") for i in self.chosen]
        self.faults: list[Fault] = []
        bounds: list[tuple[int, int]] = []
        lengths: list[list[int]] = []
        for begin, end, found in records if named else self.scan():
            try:
                row = self.row(found)
            except UnfitError as reason:
                self.faults.append(Fault(lines.name, begin + 1, str(reason)))
                continue
            bounds.append((begin, end))
            lengths.append([len(field.encode("utf-8")) for field in row])
        self.bounds: NDArray[np.int64] = np.array(bounds, np.int64).reshape(-1, 2)
        self.lengths: NDArray[np.int32] = np.array(lengths, np.int32).reshape(-1, len(self.chosen))

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, i: int) -> tuple[str, ...]:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        first, last = self.bounds[i].tolist()
        try:
            return self.row(next(found for _, _, found in self.scan(first, last)))
        except (UnfitError, StopIteration):  # it was good when the file was opened
            self.lines.changed()

    def where(self, i: int) -> str:
        return f"{self.lines.name}:{int(self.bounds[i, 0]) + 1}"

    def row(self, found: list[str] | Fault) -> tuple[str, ...]:
        if isinstance(found, Fault):
            raise UnfitError(found.reason)
        if len(found) != self.count:
            raise UnfitError(f"{len(found)} columns instead of {self.count}")
        pairs = zip(self.chosen, self.shown, strict=True)
        return tuple(checked(is_text(found[i].encode("utf-8")), name, self.longest) for i, name in pairs)

    def scan(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int, list[str] | Fault]]:
        """Each record between its first line and the one after its last; a blank line is none. The line after a bad
        record is taken for the beginning of the next."""
        end = len(self.lines) if last is None else last
        while first < end:
            start, begin = first, first
            reader = csv.reader(self.texts(start, end), strict=True)
            try:
                for found in reader:
                    begin, first = first, start + reader.line_num
                    if found:
                        yield begin, first, found
            except (csv.Error, UnfitError) as reason:
                begin, first = first, max(start + reader.line_num, first + 1)
                yield begin, first, Fault(self.lines.name, begin + 1, str(reason))

    def texts(self, first: int, end: int) -> Iterator[str]:
        for i in range(first, end):
            if self.lines.starts[i + 1] - self.lines.starts[i] > WIDEST:
                raise UnfitError(f"the line has more than {WIDEST} bytes")
            yield is_text(self.lines[i]).decode("utf-8") + "\n"


def open_csv(path: Path, columns: Sequence[int | str], *, header: bool = False, longest: int = LONGEST) -> Records:
    """Columns by number, from 1, or by the names in the first record. Then, or with ``header``, it is no row."""
    return Records(Lines(unpacked_file(path), str(path)), columns, header=header, longest=longest)
