"""What kinds of data have in common that come as tables or texts in files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.files import find_file, only_file, open_table, read_pairs, read_texts
from regard.data.rows import Rows
from regard.data.table_format import TableFormat, TableOptions, find_format, table_options
from regard.data.table_reading import TableReading, reading_of
from regard.modalities.run_parts import RunPlan, TableColumns
from regard.modalities.splits import SPLITS

PATHS = SPLITS  # settings that name files

# Of little examples.
ANIMALS = ["dog", "cat", "bird", "fish"]
WORDS = {"kind": "words", "size": 64}


def no_files(train: tuple[str, ...] | None) -> list[str]:
    return ["train is empty"] if train is not None and not train else []


def paths_of(plan: RunPlan) -> dict[str, list[Path]]:
    """The files of each split that has any."""
    given: dict[str, Any] = {split: getattr(plan.data, split) for split in SPLITS}
    return {split: [find_file(name, plan.base) for name in names] for split, names in given.items() if names}


class Reading(NamedTuple):
    columns: TableColumns
    options: TableOptions


class Tables:
    """The tables of a run's splits, and how they were understood. Test data from elsewhere has columns of its own."""

    def __init__(self, plan: RunPlan, columns: Callable[[Any], TableColumns]) -> None:
        self.plan, self.columns_of = plan, columns
        self.found: list[TableReading] = []

    def open(self, split: str, files: Sequence[Path]) -> Rows:
        path, (columns, options) = only_file(files), self.reading(split)
        form = find_format(path, columns.columns, columns.roles, options)
        return self.told(split, path, form, open_table(path, columns.columns, form))

    def open_pairs(self, split: str, files: Sequence[Path]) -> Rows:
        columns, options = self.reading(split)
        rows, (form, *_) = read_pairs(files, columns.columns, options)
        return self.told(split, files[0], form, rows)

    def open_texts(self, split: str, files: Sequence[Path]) -> Rows:
        path, (columns, options) = only_file(files), self.reading(split)
        rows, form = read_texts(path, columns.columns[0], options)
        return self.told(split, path, form, rows)

    def told(self, split: str, path: Path, form: TableFormat, rows: Rows) -> Rows:
        read = self.reading(split).columns
        columns = read.columns if form.kind != "text" else ()
        self.found.append(reading_of(split, path, form, rows, columns, read.roles))
        return rows

    def reading(self, split: str) -> Reading:
        data = self.plan.data if split != "test" or self.plan.tested is None else self.plan.tested
        return Reading(self.columns_of(data), table_options(data))
