"""The splits of a run's data, checked: not too many bad rows, a part held out, nothing learned that is measured on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.data.faults import Fault, check_fault_share
from regard.data.rows import Rows, split_held_out
from regard.data.table_reading import TableReading
from regard.errors import InputError

from .run_parts import OpenedData

SPLITS = ("train", "held_out", "test")
Tolerate = Callable[[Any, float, str], None]  # rows, the share of bad ones that is tolerated, a name


def tolerated_rows(rows: Rows, bad: float, name: str) -> None:
    check_fault_share(rows.faults, len(rows) + len(rows.faults), bad, name)


def check_splits(
    splits: dict[str, Rows],
    bad: float,
    share: float,
    seed: int,
    prepared: Any = None,
    names: tuple[str, ...] = (),
    tolerate: Tolerate = tolerated_rows,
    tables: Sequence[TableReading] = (),
) -> OpenedData:
    """Held against the share of bad rows that is tolerated; a part held out where there is none."""
    faults = check_tolerated(splits, bad, tolerate)
    if "held_out" not in splits:
        splits["train"], splits["held_out"] = split_held_out(splits["train"], share, seed)
    notes = tuple(note for table in tables for note in table.notes)
    return OpenedData(splits, faults, prepared, names, notes, tuple(tables))


def check_tolerated(splits: Mapping[str, Rows], bad: float, tolerate: Tolerate = tolerated_rows) -> list[Fault]:
    """All that is wrong, unless it is too much."""
    for split, rows in splits.items():
        tolerate(rows, bad, f"data.{split}")
    return [fault for rows in splits.values() for fault in rows.faults]


def check_disjoint(splits: Mapping[str, Rows]) -> None:
    """Nothing is measured on what was learned from."""
    learned = splits["train"]
    known = {learned.where(i) for i in range(len(learned))} if len(splits) > 1 else set()
    for split, rows in splits.items():
        if split != "train" and (same := [place for i in range(len(rows)) if (place := rows.where(i)) in known]):
            raise InputError(
                f"training images are also in the split {split}, which must have other images",
                where=f"data.{split}",
                got=f"{len(same)} of {len(rows)} images, such as {same[0]}",
                fix=f"use other images, or leave out data.{split}",
            )
