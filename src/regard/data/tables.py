"""Text, an example a line, from files of any size: plain files side by side, tab-separated columns, JSON lines.

Every line is checked when the file is opened, by whole blocks: ``split`` is the definition of what is good, ``measure``
a fast way to the same. In memory are only numbers: where lines begin, which are good, how long they are.
"""

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .encodings import UTF8, utf8_file
from .faults import Fault
from .lines import Lines

BLOCK = 1 << 22  # bytes that are checked at once
LONGEST_LINE = 1 << 26  # bytes of a line that is read at all
LONGEST_FIELD = 1 << 16  # bytes of a field, unless told otherwise


class UnfitError(ValueError):
    """A line that is no row, and why."""


class LineBlock:
    """Some lines as they stand in the file, each between its start and its end; ``bad`` are those that are no rows."""

    def __init__(self, lines: Lines, first: int, last: int) -> None:
        self.raw = lines.block(first, last)
        self.bytes = np.frombuffer(self.raw, np.uint8)
        bounds = lines.starts[first : last + 1] - lines.starts[first]
        self.starts = bounds[:-1]
        ends = bounds[1:] - (self.bytes[bounds[1:] - 1] == ord("\n"))
        self.ends = ends - ((ends > self.starts) & (self.bytes[ends - 1] == ord("\r")))
        self.bad = self.holding(b"\0") | self.undecodable()

    def __iter__(self) -> Iterator[bytes]:
        return (self.raw[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    @cached_property
    def blank(self) -> NDArray[np.bool_]:
        return self.empty(self.starts, self.ends)

    def holding(self, byte: bytes) -> NDArray[np.bool_]:
        found = np.zeros(len(self.starts), bool)
        if byte in self.raw:
            places = np.flatnonzero(self.bytes == ord(byte))
            found[np.searchsorted(self.starts, places, side="right") - 1] = True
        return found

    def undecodable(self) -> NDArray[np.bool_]:
        try:
            self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return np.array([not decodable(line) for line in self])
        return np.zeros(len(self.starts), bool)

    def empty(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether there is nothing but space between two places. Few begin with a space: those are read one by one."""
        found = starts == ends
        head = self.bytes[np.minimum(starts, len(self.bytes) - 1)]
        for i in np.flatnonzero(~found & (head <= ord(" "))).tolist():
            found[i] = not self.raw[starts[i] : ends[i]].strip()
        return found


class Form(Protocol):
    """How a line becomes fields."""

    def split(self, line: bytes) -> tuple[str, ...]:
        """The fields of one line, or UnfitError with the reason."""

    def measure(self, block: LineBlock) -> NDArray[np.int64]:
        """(n, fields): the bytes of each. Lines that ``split`` would refuse are marked as bad."""


@dataclass(frozen=True)
class Whole:
    """The line is the one field."""

    longest: int

    def split(self, line: bytes) -> tuple[str, ...]:
        return (checked(is_text(line), "the line", self.longest),)

    def measure(self, block: LineBlock) -> NDArray[np.int64]:
        lengths = block.ends - block.starts
        block.bad |= block.blank | (lengths > self.longest)
        return lengths[:, None]


@dataclass(frozen=True)
class TabColumns:
    """Some of the columns between tabs. There are no quotes: no field holds a tab or the end of a line."""

    chosen: tuple[int, ...]  # from 0
    names: tuple[str, ...]  # of the chosen ones
    count: int
    longest: int

    def split(self, line: bytes) -> tuple[str, ...]:
        fields = is_text(line).split(b"\t")
        if len(fields) != self.count:
            raise UnfitError(f"{len(fields)} columns instead of {self.count}")
        return tuple(
            checked(fields[column], name, self.longest) for column, name in zip(self.chosen, self.names, strict=True)
        )

    def measure(self, block: LineBlock) -> NDArray[np.int64]:
        tabs = np.flatnonzero(block.bytes == ord("\t"))
        first = np.searchsorted(tabs, block.starts)
        block.bad |= np.diff(first, append=len(tabs)) != self.count - 1
        good = np.flatnonzero(~block.bad)
        first, starts, ends = first[good], block.starts[good], block.ends[good]
        lengths = np.zeros((len(block.starts), len(self.chosen)), np.int64)
        for field, column in enumerate(self.chosen):
            left = tabs[first + column - 1] + 1 if column else starts
            right = tabs[first + column] if column < self.count - 1 else ends
            lengths[good, field] = right - left
            block.bad[good] |= block.empty(left, right) | (right - left > self.longest)
        return lengths


@dataclass(frozen=True)
class JsonKeys:
    """Some of the keys of a JSON object. Texts are taken as they are, whole numbers as their digits."""

    chosen: tuple[str, ...]
    longest: int

    def split(self, line: bytes) -> tuple[str, ...]:
        text = is_text(line).decode("utf-8")
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise UnfitError(f"invalid JSON at character {error.pos + 1}: {error.msg}") from None
        except ValueError:
            raise UnfitError("invalid JSON: a number has too many digits") from None
        except RecursionError:
            raise UnfitError("invalid JSON: nested too deeply") from None
        if not isinstance(found, dict):
            raise UnfitError(f"a JSON {kind(found)} instead of an object")
        return tuple(self.field(found, key) for key in self.chosen)

    def field(self, found: dict[str, object], key: str) -> str:
        if key not in found:
            raise UnfitError(f"missing key {key!r}")
        value = found[key]
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UnfitError(f"key {key!r} has a JSON {kind(value)} instead of a string")
        try:
            return checked(is_text(str(value).encode("utf-8")), f"key {key!r}", self.longest)
        except UnicodeEncodeError:
            raise UnfitError(f"key {key!r} has an unpaired surrogate, which is not a character") from None

    def measure(self, block: LineBlock) -> NDArray[np.int64]:
        lengths = np.zeros((len(block.starts), len(self.chosen)), np.int64)
        for i, line in enumerate(block):
            try:
                lengths[i] = [len(field.encode("utf-8")) for field in self.split(line)]
            except UnfitError:
                block.bad[i] = True
        return lengths


def decodable(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_text(line: bytes) -> bytes:
    """A line that is text at all."""
    if b"\0" in line:
        raise UnfitError("the line contains a NUL byte, so it is not text")
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnfitError(f"invalid UTF-8 at byte {error.start + 1}") from None
    return line


def checked(field: bytes, name: str, longest: int) -> str:
    if not field.strip():
        raise UnfitError(f"{name} is empty")
    if len(field) > longest:
        raise UnfitError(f"{name} has {len(field)} bytes, more than the limit of {longest}")
    return field.decode("utf-8")


def checked_text(field: str, name: str, longest: int) -> str:
    """The same of what is text already. To bytes, only the space of ASCII is empty."""
    if len(field) * 4 > longest or not field.strip():
        return checked(field.encode("utf-8"), name, longest)
    return field


def kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


@dataclass(frozen=True)
class TableFile:
    lines: Lines
    form: Form


class Left(Sequence[Fault]):
    """The lines that were left out. Each reason is found again when it is asked for: a million of them take no room."""

    def __init__(self, sources: Sequence[TableFile], numbers: NDArray[np.int64]) -> None:
        self.sources, self.numbers = sources, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, i: int) -> Fault: ...
    @overload
    def __getitem__(self, i: slice) -> list[Fault]: ...
    def __getitem__(self, i: int | slice) -> Fault | list[Fault]:
        if isinstance(i, slice):
            return [self.explain(number) for number in self.numbers[i].tolist()]
        return self.explain(int(self.numbers[i]))

    def explain(self, number: int) -> Fault:
        for source in self.sources:
            lines = source.lines
            if (size := int(lines.starts[number + 1] - lines.starts[number])) > LONGEST_LINE:
                return Fault(
                    lines.name, number + 1, f"the line has {size} bytes, more than the limit of {LONGEST_LINE}"
                )
            try:
                source.form.split(lines[number])
            except UnfitError as reason:
                return Fault(lines.name, number + 1, str(reason))
        self.sources[0].lines.changed()


class TextTable:
    """Rows of text: line i of every source, side by side. A line that is blank in all of them is no row and no fault.

    ``lengths`` (n, fields) are the bytes of each field.
    """

    def __init__(self, sources: Sequence[TableFile], skip: int = 0) -> None:
        self.sources = tuple(sources)
        kept, left, lengths = [], [], []
        for first, last in line_ranges([source.lines.starts for source in sources], skip):
            if any(source.lines.starts[last] - source.lines.starts[first] > LONGEST_LINE for source in sources):
                left.append(np.array([first]))
                continue
            blocks = [LineBlock(source.lines, first, last) for source in sources]
            measured = [source.form.measure(block) for source, block in zip(sources, blocks, strict=True)]
            blank = np.logical_and.reduce([block.blank for block in blocks])
            bad = np.logical_or.reduce([block.bad for block in blocks])
            kept.append(first + np.flatnonzero(~bad & ~blank))
            left.append(first + np.flatnonzero(bad & ~blank))
            lengths.append(np.hstack(measured)[~bad & ~blank].astype(np.int32))
        nothing = np.zeros(0, np.int64)
        self.numbers = np.concatenate([nothing, *kept])
        self.faults = Left(self.sources, np.concatenate([nothing, *left]))
        self.lengths = np.concatenate(lengths) if lengths else np.zeros((0, 1), np.int32)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> tuple[str, ...]:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        number = int(self.numbers[i])
        fields: list[str] = []
        for source in self.sources:
            try:
                fields += source.form.split(source.lines[number])
            except UnfitError:  # it was good when the file was opened
                source.lines.changed()
        return tuple(fields)

    def where(self, i: int) -> str:
        return f"{self.sources[0].lines.name}:{int(self.numbers[i]) + 1}"


def line_ranges(starts: Sequence[NDArray[np.int64]], first: int) -> Iterator[tuple[int, int]]:
    """Ranges of lines, none with more than a block's bytes in any source, unless one line alone has."""
    count = len(starts[0]) - 1
    while first < count:
        reach = min(int(np.searchsorted(start, start[first] + BLOCK, side="right")) - 1 for start in starts)
        last = min(max(reach, first + 1), count)
        yield first, last
        first = last


def open_plain(*paths: Path, longest: int = LONGEST_FIELD, encodings: Sequence[str] = ()) -> TextTable:
    """An example a line; with several files, line i of one belongs to line i of the others."""
    found = zip(paths, encodings or [UTF8] * len(paths), strict=True)
    sources = [TableFile(Lines(utf8_file(path, encoding), str(path)), Whole(longest)) for path, encoding in found]
    counts = [len(source.lines) for source in sources]
    if len(set(counts)) > 1:
        raise InputError(
            "the parallel files have different numbers of lines and cannot be aligned",
            where=", ".join(map(str, paths)),
            got=", ".join(f"{count} lines in {path}" for count, path in zip(counts, paths, strict=True)),
            expected="the same number of lines in each file",
            fix="check that the files are complete and belong together",
        )
    return TextTable(sources)


def open_tsv(
    path: Path,
    columns: Sequence[int | str],
    *,
    header: bool = False,
    longest: int = LONGEST_FIELD,
    encoding: str = UTF8,
) -> TextTable:
    """Columns by number, from 1, or by the names that the first line gives. Then, or with ``header``, it is no row."""
    lines = Lines(utf8_file(path, encoding), str(path))
    first = opening(lines)
    if first == len(lines):
        raise InputError(
            "the file has no rows", where=str(path), got="an empty file" if not first else f"{first} blank lines"
        )
    titles = lines[first].split(b"\t")
    named = header or any(isinstance(column, str) for column in columns)
    names = [title.decode("utf-8", "replace").strip() for title in titles] if named else []
    short = not named and any(isinstance(column, int) and column > len(titles) for column in columns)
    count = usual(lines, first) if short else len(titles)
    chosen = tuple(locate(column, names, count, str(path)) for column in columns)
    shown = tuple(f"column {i + 1}" + (f" ({names[i]})" if names else "") for i in chosen)
    return TextTable([TableFile(lines, TabColumns(chosen, shown, count, longest))], skip=first + 1 if named else first)


def open_jsonl(path: Path, keys: Sequence[str], *, longest: int = LONGEST_FIELD, encoding: str = UTF8) -> TextTable:
    """The values of some keys of the object in each line."""
    return TextTable([TableFile(Lines(utf8_file(path, encoding), str(path)), JsonKeys(tuple(keys), longest))])


def opening(lines: Lines) -> int:
    """The number of the first line that is not blank: the one that says how many columns there are."""
    for i in range(len(lines)):
        if (size := int(lines.starts[i + 1] - lines.starts[i])) > LONGEST_LINE:
            raise InputError("the first line is too long", where=lines.name, got=f"{size} bytes")
        if lines[i].strip():
            return i
    return len(lines)


def usual(lines: Lines, first: int) -> int:
    """How many columns most of the first lines have: one bad line at the top is only a bad line."""
    some = range(first, min(first + 100, len(lines)))
    small = [i for i in some if int(lines.starts[i + 1] - lines.starts[i]) <= LONGEST_LINE]
    counts = Counter(lines[i].count(b"\t") + 1 for i in small if lines[i].strip())
    return counts.most_common(1)[0][0]


def locate(column: int | str, names: Sequence[str], count: int, where: str) -> int:
    """A column's place, from 0."""
    if isinstance(column, int):
        if 1 <= column <= count:
            return column - 1
        raise InputError(
            f"column {column} does not exist",
            where=where,
            got="one column" if count == 1 else f"{count} columns",
            expected=f"a column number from 1 to {count}",
        )
    if names.count(column) == 1:
        return names.index(column)
    near = difflib.get_close_matches(column, names, n=1)
    raise InputError(
        f"the header has {'no' if column not in names else 'more than one'} column {column!r}",
        where=f"{where}:1",
        got=", ".join(map(repr, names)),
        fix=f"did you mean {near[0]!r}?" if near and near[0] != column else "select the columns by number",
    )
