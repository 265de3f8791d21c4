"""Time series given in Python, written as a csv file that a run reads."""

import csv
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.given_tables import GivenTable, as_text, table_of
from regard.errors import InputError
from regard.storage.atomic import sync_to_disk

NAMES = "time times date dates datetime timestamp timestamps ds day hour month year step"
TIMES = frozenset(NAMES.split())
TIME = "time"


def store_series(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Columns with their names; an index of dates, as pandas has it, becomes the time column. Where nothing tells the
    times, the values are numbered."""
    (given,) = splits.values()
    index = getattr(given, "index", None)
    if index is not None and hasattr(index, "strftime") and hasattr(given, "reset_index"):
        given = given.reset_index()
    if hasattr(given, "to_frame") and not hasattr(given, "columns"):  # one series of pandas
        given = given.to_frame().reset_index()
    table = table_of(columns_of_array(given), "data")
    rows = [list(row) for row in table.rows]
    names = list(table.columns)
    found: dict[str, Any] = {}
    if not asked.get("time"):
        place = time_column(table, rows)
        if place is None:
            names, rows = [TIME, *names], [[i, *row] for i, row in enumerate(rows)]
        found = {"time": TIME if place is None else names[place]}
    if len(names) < 2:
        raise InputError("there is no column of values", where="data", got=", ".join(names))
    path = folder / "series.csv"
    with open(path, "x", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(names)
        for row in rows:
            lines.writerow(["" if (text := as_text(value)) is None else text for value in row])
    sync_to_disk(path)
    return {"files": [str(path)], **found}


def columns_of_array(given: Any) -> Any:
    """(n,) is one series, (n, k) are k of them; anything else stays as it is."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    numbers = isinstance(given, list | tuple) and bool(given) and all(isinstance(x, Real) for x in given)
    if not numbers and (not hasattr(given, "__array__") or hasattr(given, "columns")):
        return given
    values = np.asarray(given)
    if values.ndim not in (1, 2):
        shape, expected = "x".join(map(str, values.shape)), "one series (n), or a column for each (n, series)"
        raise InputError("an array of series has one or two axes", where="data", got=shape, expected=expected)
    if values.ndim == 1:
        return {"value": values}
    return {f"value {i + 1}": values[:, i] for i in range(values.shape[1])}


def time_column(table: GivenTable, rows: Sequence[Sequence[Any]]) -> int | None:
    """The column that is called so; else the first of several, if it is no number, or whole numbers that grow."""
    if named := [i for i, name in enumerate(table.columns) if name.strip().lower() in TIMES]:
        return named[0]
    first = [row[0] for row in rows]
    if len(table.columns) < 2 or all(isinstance(x, Real) and not isinstance(x, Integral) for x in first):
        return None
    grows = not isinstance(first[0], Real) or all(a < b for a, b in pairwise(first))
    return 0 if grows else None
