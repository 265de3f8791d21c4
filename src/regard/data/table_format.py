"""How a table is written: its encoding, the sign between its columns, and whether its first row names them. Each is
given, or found in the file itself, so that it is the same whenever the file is.

What the ending of a file's name says stays true unless the rows say otherwise: a file of commas is read by commas if
nearly all of its rows have as many columns.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError

from .column_names import is_header
from .encodings import AUTO, UTF8, encoding_of, not_encodings, utf8_file
from .lines import Lines
from .records import RecordLines, split_records
from .tables import LONGEST_LINE, opening

Header = Literal["auto", "yes", "no", "named"]
BEFORE = {"header": "named", "delimiter": "suffix", "encoding": UTF8}  # how runs read tables before they could say it
SIGNS = (",", ";", "\t", "|")
NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "vertical bar"}
SAMPLE, SAMPLED_BYTES = 1000, 1 << 20  # records by which a file is known
ALIKE, MOST = 0.99, 0.9  # shares of records that have as many columns as most


@dataclass(frozen=True)
class TableOptions:
    """What a user says of a table."""

    header: Header = "auto"
    delimiter: str = AUTO
    encoding: str = AUTO


DETECTED = TableOptions()


@dataclass(frozen=True)
class TableFormat:
    """How a file is read."""

    kind: Literal["csv", "tsv", "jsonl", "text"]  # csv: with quotes, whatever stands between its columns
    encoding: str
    delimiter: str = ""  # of csv and tsv
    names: tuple[str, ...] | None = None  # of the columns; None without a header
    quotes: float = 0.0  # the share of fields whose quotes are read as letters

    @property
    def header(self) -> bool:
        return self.names is not None

    def words(self) -> str:
        """For people."""
        if self.kind in ("jsonl", "text"):
            return f"{'JSON lines' if self.kind == 'jsonl' else 'lines of text'}, {self.encoding}"
        told = "no header" if self.names is None else "a header"
        return f"{NAMES.get(self.delimiter, repr(self.delimiter))}-separated, {self.encoding}, {told}"


def table_options(data: Any) -> TableOptions:
    """Of a [data] table."""
    return TableOptions(data.header, data.delimiter, data.encoding)


def not_table_options(data: Any, *columns: int | str | None) -> list[str]:
    """What is wrong with those of a [data] table; ``columns`` are all that it names."""
    wrong = not_encodings(data.encoding)
    if data.delimiter is not None and data.delimiter not in (AUTO, "suffix") and not sign_of(data.delimiter):
        wrong += [f"delimiter = {data.delimiter!r} is not auto, suffix, tab or one character"]
    if data.header == "no" and (named := [column for column in columns if isinstance(column, str) and column]):
        wrong += [f"header = 'no', but the column {named[0]!r} is given by name: use its number"]
    return wrong


def sign_of(delimiter: str) -> str:
    """The character that is meant; empty if none can be."""
    sign = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    return sign if len(sign) == 1 and (sign == "\t" or sign.isprintable()) and sign not in '"\r\n' else ""


def file_format(path: Path) -> str:
    """By the file's name: jsonl, csv, or what else stands behind its last dot."""
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").rpartition(".")[2]


def usual_delimiter(path: Path) -> str:
    return "," if file_format(path) == "csv" else "\t"


def find_format(
    path: Path, columns: Sequence[int | str], roles: Sequence[str] = (), options: TableOptions = DETECTED
) -> TableFormat:
    """Of a table of which these columns are read; ``roles`` say what each is, such as "text" or "label"."""
    encoding = encoding_of(path, options.encoding)
    named = any(isinstance(column, str) for column in columns)
    if file_format(path) in ("jsonl", "json"):
        refuse_idle(path, options)
        return TableFormat("jsonl", encoding)
    if named and options.header == "no":
        got = next(repr(column) for column in columns if isinstance(column, str))
        fix = "give the columns by their numbers, or set data.header"
        raise InputError("a table without a header has no column names", where=str(path), got=got, fix=fix)
    lines = Lines(utf8_file(path, encoding), str(path))
    usual = usual_delimiter(path)
    delimiter = usual if options.delimiter == "suffix" else sign_of(options.delimiter)
    if options.delimiter == AUTO:
        delimiter = find_delimiter(lines, columns, usual)
    kind: Literal["csv", "tsv"] = "csv" if has_quotes(delimiter, usual) else "tsv"
    rows = sample_rows(lines, delimiter, quoted=kind == "csv")
    quotes = quoted_share(rows) if kind == "tsv" else 0.0
    if quotes == 1 and options.delimiter == AUTO:  # each and every field: they are no letters
        kind, quotes, rows = "csv", 0.0, sample_rows(lines, delimiter)
    header = named or options.header == "yes"
    if options.header == AUTO and not named and rows:
        places = [column - 1 for column in columns if isinstance(column, int)]
        inside = all(0 <= place < len(rows[0]) for place in places)
        header = inside and len(roles) == len(places) and is_header(rows, places, roles)
    names = tuple(cell.strip() for cell in rows[0]) if header and rows else None
    return TableFormat(kind, encoding, delimiter, names, quotes)


def quoted_share(rows: Sequence[Sequence[str]]) -> float:
    """The share of fields that stand in quotes."""
    fields = [cell for row in rows for cell in row]
    return sum(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in fields) / max(len(fields), 1)


def refuse_idle(path: Path, options: TableOptions) -> None:
    """What says how columns stand side by side, of a file without columns."""
    given = [f"data.header = {options.header!r}"] if options.header in ("yes", "no") else []
    given += [f"data.delimiter = {options.delimiter!r}"] if options.delimiter not in (AUTO, "suffix") else []
    if given:
        what = "a jsonl file has keys, and neither a header nor a delimiter"
        raise InputError(what, where=str(path), got=", ".join(given), fix="remove it")


def sign_in(header: str) -> str:
    """The one that a header has most of; a bar only where there is no other."""
    return max(SIGNS[:3], key=header.count) if any(sign in header for sign in SIGNS[:3]) else SIGNS[-1]


def find_delimiter(lines: Lines, columns: Sequence[int | str], usual: str) -> str:
    return best_delimiter(lambda sign: sample_rows(lines, sign, has_quotes(sign, usual)), columns, usual)


def has_quotes(sign: str, usual: str) -> bool:
    """Whether a field may stand in quotes: not in a file of tabs by name and by content."""
    return sign != "\t" or usual != "\t"


def delimiter_of_text(text: str, columns: Sequence[int | str], usual: str) -> str:
    """The same of a small text."""
    lines = text[:SAMPLED_BYTES].splitlines(keepends=True)

    def rows(sign: str) -> list[list[str]]:
        if not has_quotes(sign, usual):
            return [line.rstrip("\r\n").split(sign) for line in lines if line.strip()]
        found = split_records(lambda start: iter(lines[start:]), 0, len(lines), sign)
        return [record.fields for record in found if not record.fault]

    return best_delimiter(rows, columns, usual)


def best_delimiter(rows: Callable[[str], Sequence[Sequence[str]]], columns: Sequence[int | str], usual: str) -> str:
    """The usual one, unless nearly all rows have as many columns with another, and not with this."""
    found = {sign: fit_of(rows(sign), columns) for sign in (usual, *SIGNS)}
    if found[usual].good():
        return usual
    least = ALIKE if found[usual].there else MOST
    others = [sign for sign in SIGNS if sign != usual and found[sign].count > 1]
    best = max(others, key=lambda sign: found[sign].rank(least), default=usual)  # the first of equal ones
    return best if found[best].good(least) else usual


@dataclass(frozen=True)
class Fit:
    """How well rows fit together."""

    there: bool  # all columns that are asked for
    regular: bool  # the first row has as many columns as most
    share: float  # of the rows that have as many
    count: int  # columns
    tight: float  # the share of fields that do not begin with a space, as after a comma in a sentence

    def good(self, least: float = ALIKE) -> bool:
        return self.there and self.regular and self.share >= least

    def rank(self, least: float) -> tuple[bool, float, float, int]:
        return self.good(least), self.tight, self.share, self.count


def fit_of(rows: Sequence[Sequence[str]], columns: Sequence[int | str]) -> Fit:
    if not rows:
        return Fit(False, False, 0.0, 0, 0.0)
    count, times = Counter(map(len, rows)).most_common(1)[0]
    first = [cell.strip() for cell in rows[0]]
    there = all(column in first if isinstance(column, str) else column <= count for column in columns)
    later = [cell for row in rows for cell in row[1:]]
    tight = sum(not cell.startswith(" ") for cell in later) / max(len(later), 1)
    return Fit(there and count >= min(len(columns), 2), len(first) == count, times / len(rows), count, tight)


def sample_rows(lines: Lines, delimiter: str, quoted: bool = True) -> list[list[str]]:
    """The first records that can be read."""
    end = sampled_lines(lines)
    if quoted:
        found = (record.fields for record in RecordLines(lines, delimiter).scan(0, end) if not record.fault)
    else:
        found = (text.split(delimiter) for text in plain_lines(lines, end))
    return [row for row, _ in zip(found, range(SAMPLE), strict=False)]


def sampled_lines(lines: Lines) -> int:
    """The lines of the first bytes; at least the first that is not blank."""
    first = opening(lines) + 1
    some = int((lines.starts <= lines.starts[0] + SAMPLED_BYTES).sum()) - 1
    return min(max(some, first), len(lines))


def plain_lines(lines: Lines, end: int) -> Iterator[str]:
    for i in range(end):
        if lines.starts[i + 1] - lines.starts[i] <= LONGEST_LINE and (line := lines[i]).strip():
            yield line.decode("utf-8", "replace")
