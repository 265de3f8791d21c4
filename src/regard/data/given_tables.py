"""Tables given in Python: lists, columns, arrays, pandas and Hugging Face tables, as named columns and rows.

The libraries are recognised by what their tables can do; none of them is imported.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from regard.errors import InputError, first_of, notify

from .column_names import known_name

FILES = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".conllu", ".zip", ".gz", ".xz", ".bz2", ".npy", ".webp", ".png")
FORMS = (
    "a list of rows (tuples or dicts), a dict of columns, a pair (inputs, labels), a pandas DataFrame, or a "
    "Hugging Face Dataset"
)


@dataclass(frozen=True, eq=False)
class GivenTable:
    """Named columns; rows are made as they are read."""

    columns: tuple[str, ...]
    rows: Iterable[Sequence[Any]]
    names: Mapping[str, Sequence[str]]  # of columns whose numbers stand for these


def is_path(given: object) -> bool:
    """A path, or texts that can only be paths: each is a file that exists, or has the ending of one."""
    if isinstance(given, PathLike):
        return True
    if isinstance(given, str):
        looks = given.lower().endswith(FILES) and "\n" not in given
        return bool(given) and len(given) < 4096 and "\n" not in given and (looks or Path(given).exists())
    return isinstance(given, list | tuple) and bool(given) and all(map(is_path, given))


def table_of(given: Any, where: str) -> GivenTable:
    """The columns and rows of whatever holds some."""
    if hasattr(given, "columns") and hasattr(given, "itertuples"):  # pandas
        return GivenTable(tuple(map(str, given.columns)), given.itertuples(index=False, name=None), {})
    if hasattr(given, "columns") and hasattr(given, "iter_rows"):  # polars
        return GivenTable(tuple(map(str, given.columns)), given.iter_rows(), {})
    if hasattr(given, "column_names") and hasattr(given, "features"):  # datasets
        return hugging_face(given)
    if isinstance(given, Mapping):
        return of_columns(given, where)
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise InputError("the training data is not a table", where=where, got=described(given), expected=FORMS)
    if (pair := inputs_and_labels(given, where)) is not None:
        return of_columns(dict(zip(("text", "label"), pair, strict=True)), where)
    return of_rows(given, where)


def hugging_face(given: Any) -> GivenTable:
    columns = tuple(given.column_names)
    features = given.features or {}
    names = {key: list(one.names) for key, one in features.items() if getattr(one, "names", None)}
    return GivenTable(columns, ([row[key] for key in columns] for row in given), names)


def of_columns(given: Mapping[str, Any], where: str) -> GivenTable:
    sizes = {str(name): len(column) for name, column in given.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InputError("the columns have different lengths", where=where, got=told, expected="one length")
    return GivenTable(tuple(sizes), zip(*given.values(), strict=True), {})


def inputs_and_labels(given: Any, where: str) -> tuple[Any, Any] | None:
    """A pair of as many inputs and labels, not a list of two rows."""
    if not isinstance(given, tuple) or len(given) != 2 or not all(hasattr(x, "__len__") for x in given):
        return None
    inputs, labels = given
    if any(isinstance(x, str | bytes | Mapping | tuple) for x in given):
        return None
    if len(inputs) != len(labels):
        got = f"{amount(inputs, 'input')} and {amount(labels, 'label')}"
        fix = "give one label for each input; rows are a list: [(input, label), ...]"
        raise InputError("a pair of inputs and labels, of which there are not as many", where=where, got=got, fix=fix)
    if len(inputs) == 2 and all(isinstance(x, list) for x in given):
        notify(
            f"{where}: a pair of two lists is read as 2 inputs and their 2 labels; two rows would be a list of tuples"
        )
    return inputs, labels


def amount(items: Any, name: str) -> str:
    return f"{len(items)} {name}{'s' * (len(items) != 1)}"


def of_rows(given: Iterable[Any], where: str) -> GivenTable:
    """Rows one by one: all of them dicts with the same keys, or all of the same length, or single texts."""
    rows = iter(given)
    first = next(rows, None)
    if first is None:
        raise InputError("there are no rows", where=where, expected=FORMS)
    if isinstance(first, Mapping):
        columns = tuple(map(str, first))
        return GivenTable(columns, by_keys(chain([first], rows), list(first), where), {})
    if isinstance(first, str):
        return GivenTable(("text",), ([row] for row in chain([first], rows)), {})
    if not hasattr(first, "__len__"):
        raise InputError("a row is not a tuple, a dict or a text", where=f"{where}, row 1", got=described(first))
    columns = tuple(str(i + 1) for i in range(len(first)))
    return GivenTable(columns, of_length(chain([first], rows), len(first), where), {})


def by_keys(rows: Iterable[Any], keys: Sequence[Any], where: str) -> Iterator[list[Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or any(key not in row for key in keys):
            expected = f"a dict with the keys {', '.join(map(repr, keys))}"
            raise InputError(
                "a row differs from the first one",
                where=f"{where}, row {number}",
                got=described(row),
                expected=expected,
            )
        yield [row[key] for key in keys]


def of_length(rows: Iterable[Any], size: int, where: str) -> Iterator[Sequence[Any]]:
    for number, row in enumerate(rows, 1):
        if isinstance(row, str | Mapping) or not hasattr(row, "__len__") or len(row) != size:
            raise InputError(
                "a row differs from the first one",
                where=f"{where}, row {number}",
                got=described(row),
                expected=f"{size} values",
            )
        yield row


def picked_columns(
    table: GivenTable, roles: Sequence[str], asked: Sequence[str | int], where: str
) -> Iterator[list[Any]]:
    """The values of each row for these roles: from the columns that are asked for, or those with such names, or in
    their order where there are no more."""
    chosen = [
        column_for(table, role, want, where) for role, want in zip(roles, asked or [""] * len(roles), strict=True)
    ]
    if None in chosen or len(set(chosen)) < len(chosen):
        if len(table.columns) != len(roles):
            raise InputError(
                f"the columns of {' and '.join(roles)} are not known",
                where=where,
                got=f"columns {', '.join(first_of(table.columns, 20))}",
                expected=f"columns named {', '.join(roles)}, or {len(roles)} columns",
                fix=f"name them, such as data={{'train': table, '{roles[0]}': '{table.columns[0]}'}}",
            )
        chosen = list(range(len(roles)))
    places = [i for i in chosen if i is not None]
    names = [table.names.get(table.columns[i], ()) for i in places]
    for number, row in enumerate(table.rows, 1):
        yield [named(row[i], known, f"{where}, row {number}") for i, known in zip(places, names, strict=True)]


def column_for(table: GivenTable, role: str, want: str | int, where: str) -> int | None:
    """The place of a column: by its name or its number from 1; of any name that such a column usually has."""
    if want == "":
        named = [i for i, name in enumerate(table.columns) if name.lower() == role]
        found = named or [i for i, name in enumerate(table.columns) if known_name(name, role)]
        return found[0] if len(found) == 1 or named else None
    if isinstance(want, int) and 1 <= want <= len(table.columns):
        return want - 1
    if want in table.columns:
        return table.columns.index(str(want))
    raise InputError(
        "the table has no such column", where=where, got=repr(want), expected=", ".join(first_of(table.columns, 20))
    )


def named(value: Any, names: Sequence[str], where: str) -> Any:
    """A value, or the name that its number stands for; none for what has no label."""
    if not names:
        return value
    if value is None or value == -1:
        return None
    if not 0 <= int(value) < len(names):
        raise InputError("a label has no name", where=where, got=str(value), expected=f"0 to {len(names) - 1}")
    return names[int(value)]


def as_text(value: Any) -> str | None:
    """A cell as text; None where it is missing."""
    if value is None or (isinstance(value, Real) and math.isnan(float(value))) or type(value).__name__ == "NAType":
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return str(value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value)


def described(value: object) -> str:
    """A value by its type, and how it begins."""
    return f"{type(value).__name__} {value!r}"[:100]


def as_settings(value: Any) -> Any:
    """As a run file could hold it; data in memory stays as it is."""
    if isinstance(value, Mapping):
        return {str(key): as_settings(item) for key, item in value.items()}
    if isinstance(value, PathLike):
        return str(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):  # a number of numpy or torch
        return value.item()
    return list(value) if isinstance(value, tuple) else value
