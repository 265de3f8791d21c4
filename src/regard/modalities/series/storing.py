"""Time series given in Python, written as a csv file that a run reads."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.given_tables import as_text, table_of
from regard.errors import InputError
from regard.storage.atomic import sync_to_disk


def store_series(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Columns with their names; an index of dates, as pandas has it, becomes the time column."""
    (given,) = splits.values()
    index = getattr(given, "index", None)
    if index is not None and hasattr(index, "strftime") and hasattr(given, "reset_index"):
        given = given.reset_index()
    if hasattr(given, "to_frame") and not hasattr(given, "columns"):  # one series of pandas
        given = given.to_frame().reset_index()
    table = table_of(given, "data")
    if len(table.columns) < 2:
        raise InputError("a time column and a value column are needed", where="data", got=", ".join(table.columns))
    path = folder / "series.csv"
    with open(path, "x", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table.columns)
        for row in table.rows:
            lines.writerow(["" if (text := as_text(value)) is None else text for value in row])
    sync_to_disk(path)
    return {"files": [str(path)]}
