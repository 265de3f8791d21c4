"""Texts with a label, or pairs of texts with one: lines of a table, the label's name as a number."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.data.faults import Fault, fault_at
from regard.data.rows import IntegerArray, Rows
from regard.errors import InputError

MOST_LABELS = 10_000  # labels: more are none


class LabelledText(NamedTuple):
    """One example."""

    texts: tuple[str, ...]  # one, or two that belong together
    label: int


class LabelledTexts:
    """Rows of a table whose last field is the label. A row with a label that is not among the names is a fault."""

    def __init__(self, rows: Rows, names: Sequence[str] = ()) -> None:
        assert rows.lengths is not None
        self.source = rows
        found = [str(rows[i][-1]).strip() for i in range(len(rows))]
        self.names = tuple(names) or tuple(sorted(set(found), key=in_order))
        if len(self.names) > MOST_LABELS:
            raise InputError(
                "too many distinct labels",
                where=rows.where(0),
                got=f"{len(self.names)} labels in {len(rows)} rows, such as {found[0][:40]!r}",
                expected=f"at most {MOST_LABELS}",
                fix="check that data.label names the column of the labels",
            )
        numbers = {name: i for i, name in enumerate(self.names)}
        self.labels = np.array([numbers.get(name, -1) for name in found], np.int64)
        self.kept = np.flatnonzero(self.labels >= 0)
        self.row_labels: IntegerArray = self.labels[self.kept]
        self.lengths: IntegerArray = rows.lengths[self.kept, :-1]
        unknown = [fault_at(rows.where(int(i)), strange(found[i])) for i in np.flatnonzero(self.labels < 0)]
        self.faults: Sequence[Fault] = [*rows.faults, *unknown] if unknown else rows.faults

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, i: int) -> LabelledText:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        row = int(self.kept[i])
        return LabelledText(tuple(self.source[row][:-1]), int(self.labels[row]))

    def where(self, i: int) -> str:
        return self.source.where(int(self.kept[i]))


def in_order(name: str) -> tuple[int, str]:
    """Numbers by their size, then names by their letters."""
    return (int(name), "") if name.isdecimal() and len(name) < 10 else (1 << 62, name)


def strange(name: str) -> str:
    return f"the label {name[:40]!r} does not occur in the training data"
