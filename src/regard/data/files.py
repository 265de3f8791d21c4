"""Files that a user names: where they are looked for, and the form of what is in them."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.errors import InputError

from .records import open_csv
from .rows import Rows
from .tables import open_jsonl, open_plain, open_tsv

TABLES = ("jsonl", "json", "tsv", "csv")


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


def pair_rows(paths: Sequence[Path], columns: Sequence[int | str]) -> Rows:
    if len(paths) == 2:
        return open_plain(*paths)
    if len(paths) != 1 or len(columns) != 2:
        raise InputError(
            "text pairs need one file with two columns, or two files",
            got=f"{len(paths)} files, columns {list(columns)}",
        )
    return table_rows(paths[0], columns)


def text_rows(paths: Sequence[Path], key: int | str) -> Rows:
    path = only_file(paths)
    return table_rows(path, [key]) if file_format(path) in TABLES else open_plain(path)


def table_rows(path: Path, columns: Sequence[int | str]) -> Rows:
    """By the file's name: jsonl, csv, or else columns between tabs."""
    form = file_format(path)
    if form in ("jsonl", "json"):
        return open_jsonl(path, [str(column) for column in columns])
    return open_csv(path, columns) if form == "csv" else open_tsv(path, columns)


def file_format(path: Path) -> str:
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").rpartition(".")[2]


def only_file(paths: Sequence[Path]) -> Path:
    if len(paths) != 1:
        raise InputError(
            "this kind of data needs exactly one file per split",
            got=", ".join(map(str, paths)),
            fix="merge the files into one",
        )
    return paths[0]
