"""What kinds of data have in common that come as tables or texts in files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import find_file, only_file, open_table, read_pairs, read_texts
from regard.data.rows import Rows
from regard.data.table_format import TableFormat, find_format, table_options
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


class Tables:
    """The tables of a run's splits, and how they were understood."""

    def __init__(self, plan: RunPlan, read: TableColumns) -> None:
        self.options, self.columns, self.roles = table_options(plan.data), read.columns, read.roles
        self.found: list[TableReading] = []

    def open(self, split: str, files: Sequence[Path]) -> Rows:
        path = only_file(files)
        form = find_format(path, self.columns, self.roles, self.options)
        return self.told(split, path, form, open_table(path, self.columns, form))

    def open_pairs(self, split: str, files: Sequence[Path]) -> Rows:
        rows, (form, *_) = read_pairs(files, self.columns, self.options)
        return self.told(split, files[0], form, rows)

    def open_texts(self, split: str, files: Sequence[Path]) -> Rows:
        path = only_file(files)
        rows, form = read_texts(path, self.columns[0], self.options)
        return self.told(split, path, form, rows)

    def told(self, split: str, path: Path, form: TableFormat, rows: Rows) -> Rows:
        columns = self.columns if form.kind != "text" else ()
        self.found.append(reading_of(split, path, form, rows, columns, self.roles))
        return rows
