"""Files that a user names: where they are looked for, and the form of what is in them."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.errors import InputError

from .encodings import encoding_of
from .records import open_csv
from .rows import Rows
from .table_format import DETECTED, TableFormat, TableOptions, file_format, find_format
from .tables import open_jsonl, open_plain, open_tsv

TABLES = ("jsonl", "json", "tsv", "csv")
PAIR = ("source", "target")


def find_file(name: str, base: Path) -> Path:
    """A path beside the run file, or as it is, or among the data that REGARD_DATA names."""
    places = search_paths(name, base)
    for place in places:
        if place.exists():
            return place
    raise InputError("file not found", got=name, expected=" or ".join(map(str, places)), fix=data_folder_hint())


def search_paths(name: str, base: Path) -> list[Path]:
    """Where a file or a folder is looked for, in this order."""
    data = os.environ.get("REGARD_DATA")
    places = [base / name, Path(name), *([Path(data) / name] if data else [])]
    return list(dict.fromkeys(place.resolve() for place in places))  # an absolute name is one place


def data_folder_hint() -> str:
    data = os.environ.get("REGARD_DATA") or "not set"
    return f"set REGARD_DATA to the folder of your data (it is {data}), or give another path"


def pair_rows(paths: Sequence[Path], columns: Sequence[int | str], options: TableOptions = DETECTED) -> Rows:
    return read_pairs(paths, columns, options)[0]


def read_pairs(
    paths: Sequence[Path], columns: Sequence[int | str], options: TableOptions
) -> tuple[Rows, tuple[TableFormat, ...]]:
    """Two plain files side by side, or a table with two columns; and how they are read."""
    if len(paths) == 2:
        formats = tuple(TableFormat("text", encoding_of(path, options.encoding)) for path in paths)
        return open_plain(*paths, encodings=[one.encoding for one in formats]), formats
    if len(paths) != 1 or len(columns) != 2:
        raise InputError(
            "text pairs need one file with two columns, or two files",
            got=f"{len(paths)} files, columns {list(columns)}",
        )
    form = find_format(paths[0], columns, PAIR, options)
    return open_table(paths[0], columns, form), (form,)


def read_texts(path: Path, key: int | str, options: TableOptions) -> tuple[Rows, TableFormat]:
    """A text in each row of a table, or in each line of any other file."""
    if file_format(path) in TABLES:
        form = find_format(path, [key], ["text"], options)
    else:
        form = TableFormat("text", encoding_of(path, options.encoding))
    return open_table(path, [key], form), form


def table_rows(
    path: Path, columns: Sequence[int | str], roles: Sequence[str] = (), options: TableOptions = DETECTED
) -> Rows:
    """Some columns of a table; ``roles`` say what each is, by which a header is known."""
    return open_table(path, columns, find_format(path, columns, roles, options))


def open_table(path: Path, columns: Sequence[int | str], form: TableFormat) -> Rows:
    """As its format says."""
    if form.kind == "text":
        return open_plain(path, encodings=[form.encoding])
    if form.kind == "jsonl":
        return open_jsonl(path, [str(column) for column in columns], encoding=form.encoding)
    if form.kind == "tsv":
        return open_tsv(path, columns, header=form.header, encoding=form.encoding)
    return open_csv(path, columns, header=form.header, delimiter=form.delimiter, encoding=form.encoding)


def only_file(paths: Sequence[Path]) -> Path:
    if len(paths) != 1:
        raise InputError(
            "this kind of data needs exactly one file per split",
            got=", ".join(map(str, paths)),
            fix="merge the files into one",
        )
    return paths[0]
