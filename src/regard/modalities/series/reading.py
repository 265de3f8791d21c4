"""Series from a csv file: a header, a column of times, and columns of values, each a series; or in the long form, one
column of values and one that names the series of each line. What is no number is told with its line.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.encodings import read_encoded
from regard.data.faults import printable
from regard.data.records import split_records
from regard.data.table_format import sign_in
from regard.errors import InputError, first_of
from regard.nn.config import closest_name

from .times import SET, Moment, Times, moment_of, quantity, times_of

Values = NDArray[np.float64]
SHOWN = 5  # bad cells that are named
SMALLEST, LARGEST = 1e-30, 1e30  # what float32 holds, with room for sums of errors
FORM = "column names such as time,temperature, then rows such as 2024-01-01,3.5"
SPLIT = "[.,' \u00a0\u202f]"  # between thousands
GROUPED = re.compile(rf"[-+]?(?:\d+,\d+|\d{{1,3}}(?:{SPLIT}\d{{3}})+(?:[.,]\d+)?)")  # no number to Python


@dataclass(frozen=True)
class SeriesColumns:
    """How a file is read."""

    time: str = ""  # the name of the column of times; the first
    values: tuple[str, ...] = ()  # columns of values; all others
    series: str = ""  # of the long form: the column that names the series
    times: Literal["regular", "ordered"] = "regular"

    def to_data(self) -> dict[str, Any]:
        return asdict(self) | {"values": list(self.values)}


@dataclass(frozen=True, eq=False)
class TimeSeries:
    name: str
    values: Values
    times: Times
    file: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"TimeSeries({self.name!r}, {quantity(len(self), 'value')}, {self.times.spacing} apart)"

    def where(self) -> str:
        return ": ".join(part for part in (self.file, self.name) if part)


def in_range(series: TimeSeries) -> TimeSeries:
    """The series, or an error that names the first value that a net cannot take; zeros are none of these."""
    sizes = np.abs(series.values)
    top = float(sizes.max(initial=0.0))
    if 0 < top < SMALLEST or top > LARGEST:
        i = int((sizes > LARGEST).argmax() if top > LARGEST else sizes.argmax())
        too, move = ("large", "divide") if top > LARGEST else ("small", "multiply")
        place = f"at time {series.times.text(series.times.moments[i])}" if series.file else f"at position {i + 1}"
        raise InputError(
            f"the values of {f'the series {printable(series.name)!r}' if series.name else 'the series'} are too {too}",
            where=series.where(),
            got=f"{series.values[i]:g} {place}",
            expected=f"a largest absolute value between {SMALLEST:g} and {LARGEST:g}",
            fix=f"check the values, or {move} them by a constant",
        )
    return series


def read_series(path: Path, columns: SeriesColumns, advice: str = SET) -> list[TimeSeries]:
    """All series of a file, those of the long form in the order in which they begin."""
    return series_in(read_encoded(path), path, columns, advice)


def series_in(text: str, path: Path, columns: SeriesColumns, advice: str = SET) -> list[TimeSeries]:
    """The same of a text; the path is where faults are told to be, the advice what can be done with a setting."""
    header, lines = rows_of(text, path)
    time = position(header, columns.time, path) if columns.time else 0
    group = position(header, columns.series, path) if columns.series else None
    places = [position(header, name, path) for name in columns.values]
    places = places or [i for i in range(len(header)) if i not in (time, group)]
    if not places:
        expected = "a time column and at least one value column"
        raise InputError("the file has no value column", where=str(path), got=", ".join(header), expected=expected)
    found: dict[str, dict[int, list[str]]] = {}  # of each group its lines, by their numbers
    for number, line in lines:
        if len(line) != len(header):
            got = f"{len(line)} columns, but {len(header)} in the header"
            raise InputError("the number of columns differs from the header", where=f"{path}:{number}", got=got)
        found.setdefault("" if group is None else line[group], {})[number] = line
    if not found:
        raise InputError("the file has no rows below the header", where=str(path))
    moments = {
        number: moment(line, time, header, path, number, advice)
        for lines in found.values()
        for number, line in lines.items()
    }
    values = {place: numbers_of(found, place, header, places, path, columns, advice) for place in places}
    series = []
    for name, rows in found.items():
        numbers = list(rows)
        own = [moments[number] for number in numbers]
        spots = [f"{path}:{number}" for number in numbers]
        times = times_of(own, spots.__getitem__, ordered=columns.times == "ordered", advice=advice)
        for place in places:
            parts = ([name] if name else []) + ([header[place]] if not name or len(places) > 1 else [])
            own_values = np.array([values[place][number] for number in numbers])
            series.append(in_range(TimeSeries(" ".join(parts), own_values, times, str(path))))
    return series


def rows_of(text: str, path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header, and each line that is not empty with its number."""
    first = text.partition("\n")[0]
    if not text.strip():
        raise InputError("the file is empty", where=str(path), expected=FORM)
    rows = records_in(text, sign_in(first), path)
    header = [name.strip() for name in next(rows)[1]] if first.strip() else []
    if all(moment_of(name) is not None for name in header):
        raise InputError(
            "the csv file has no header",
            where=f"{path}:1",
            got=printable(first[:100]) or "an empty line",
            expected=FORM,
        )
    if len(header) == 1:
        raise one_column(header[0], next(rows, (0, []))[1], path)
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError("duplicate column name", where=f"{path}:1", got=printable(twice))
    return header, rows


def records_in(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record with the number of its last line."""
    lines = list(io.StringIO(text, newline=""))
    for record in split_records(lambda start: iter(lines[start:]), 0, len(lines), delimiter):
        if record.fault:
            where, fix = f"{path}:{record.first + 1}", "check the quotes of this row: each opens and closes a field"
            raise InputError("a row cannot be read", where=where, got=record.fault, fix=fix)
        yield record.end, record.fields


def one_column(name: str, line: Sequence[str], path: Path) -> InputError:
    """Of a header and the line below it without , ; | or tab: columns with another sign between them, or only one."""
    if line and all(len(part.split()) > 1 for part in (name, *line[:1])):
        what, got = "the columns are separated by an unsupported character", printable(name[:100])
        fix = "replace spaces by commas"
        return InputError(what, where=f"{path}:1", got=got, expected=", ; | or tab", fix=fix)
    what = "the file needs a time column and a value column; found 1 column"
    return InputError(what, where=f"{path}:1", got=printable(name[:100]), expected=FORM)


def position(header: Sequence[str], name: str, path: Path) -> int:
    if name not in header:
        got = f"{name!r}{closest_name(name, header)}"
        raise InputError("unknown column", where=f"{path}:1", got=got, expected=", ".join(header))
    return header.index(name)


def moment(line: Sequence[str], place: int, header: Sequence[str], path: Path, number: int, advice: str) -> Moment:
    found, text = moment_of(line[place]), line[place]
    if found is None:
        dates = [name for name, cell in zip(header, line, strict=True) if isinstance(moment_of(cell), datetime)]
        name = quoted(dates[0] if dates else "NAME")
        raise InputError(
            "invalid time",
            where=f"{path}:{number}",
            got=printable(text[:60]) or "an empty cell",
            expected="2024-01-31, 2024-01-31 18:00, 2024-01, or a number",
            fix=f"if the times are in another column, {advice} data.time = {name}",
        )
    return found


def numbers_of(
    found: Mapping[str, Mapping[int, Sequence[str]]],
    place: int,
    header: Sequence[str],
    places: Sequence[int],
    path: Path,
    columns: SeriesColumns,
    advice: str,
) -> dict[int, float]:
    """The values of a column by line, or an error that names all that is none."""
    read = {number: number_of(line[place]) for lines in found.values() for number, line in lines.items()}
    bad = sorted(number for number, value in read.items() if value is None)
    if bad:
        cells = {number: line[place] for lines in found.values() for number, line in lines.items()}
        told = [f"line {number}: {printable(cells[number][:40]) or 'an empty cell'}" for number in bad]
        others = [quoted(header[i]) for i in places if i != place]
        fix = "fill in the missing values"
        if all(GROUPED.fullmatch(cells[number].strip()) for number in bad):
            fix = "use a decimal point, and no separator between thousands: 10283.5"
        elif len(bad) == len(read) and all(moment_of(cells[number]) is not None for number in bad):
            fix = f"if this is the time column, {advice} data.time = {quoted(header[place])}"
        elif len(bad) == len(read) and not columns.series:
            fix = f"if this column names the series of each line, {advice} data.series = {quoted(header[place])}"
        elif others:
            fix += f", or {advice} data.values = [{', '.join(first_of(others, SHOWN))}]"
        raise InputError(
            f"the column {printable(header[place])!r} has non-numeric cells",
            where=f"{path}:{bad[0]}",
            got="; ".join(first_of(told, SHOWN)),
            expected="a finite number in every line",
            fix=fix,
        )
    return {number: value for number, value in read.items() if value is not None}


def quoted(name: str) -> str:
    """As a run file writes it."""
    return json.dumps(printable(name), ensure_ascii=False)


def number_of(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
