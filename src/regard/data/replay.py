"""Data that a task fills as it learns: a replay memory, in files that only grow.

Each field of a row is a file of its own to which values are appended. A checkpoint holds the number of rows; whoever
goes on from it cuts the files back to that number, so nothing is ever written twice and the bits are the same.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .counter_rng import ORDER, philox, uniform_samples
from .rows import IntegerArray

Row = Mapping[str, NDArray[Any]]
Field = tuple[str, tuple[int, ...]]  # a numpy type, and the shape of one row


class Replay:
    """Rows by number, drawn at random for each step from those that are there: ``batch`` of the last ``room`` of them.
    ``make`` turns rows into a batch."""

    def __init__(self, fields: Mapping[str, Field], make: Any, *, batch: int, room: int, seed: int) -> None:
        self.fields = {name: (np.dtype(kind), shape) for name, (kind, shape) in fields.items()}
        self.make, self.batch, self.room, self.seed = make, batch, room, seed
        self.folder: Path | None = None
        self.count = 0

    def attach(self, folder: Path) -> None:
        """Where its files are. They are opened when something is appended or read."""
        self.folder = folder

    def bytes_of(self, name: str) -> int:
        """Of one row."""
        kind, shape = self.fields[name]
        return kind.itemsize * int(np.prod(shape))

    def file(self, name: str) -> Path:
        if self.folder is None:
            raise InputError("the replay buffer has no folder yet", fix="call attach() before rows are added")
        return self.folder / f"{name}.rows"

    def append(self, rows: Sequence[Row]) -> None:
        """Behind all that is there. What a row holds is checked: nobody could tell later where it went wrong."""
        if not rows:
            return
        for row in rows:
            if row.keys() != self.fields.keys():
                raise InputError("the row has the wrong fields", got=", ".join(row), expected=", ".join(self.fields))
        self.file(next(iter(self.fields))).parent.mkdir(parents=True, exist_ok=True)
        for name, (kind, shape) in self.fields.items():
            values = np.stack([np.asarray(row[name], kind) for row in rows])
            if values.shape[1:] != shape:
                raise InputError(
                    f"field {name!r} of the row has the wrong shape", got=str(values.shape[1:]), expected=str(shape)
                )
            with open(self.file(name), "ab") as file:
                file.write(values.tobytes())
        self.count += len(rows)

    def sync(self) -> int:
        """Before a checkpoint names its rows, they are on the disk.  -> how many there are"""
        for name in self.fields if self.count else ():
            descriptor = os.open(self.file(name), os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        return self.count

    def rewind(self, count: int) -> None:
        """Only the first ``count`` are there from now on. The files are only read: another process may write them."""
        for name in self.fields:
            size, path = count * self.bytes_of(name), self.file(name)
            there = path.stat().st_size if path.is_file() else 0
            if there < size:
                raise InputError(
                    "the replay buffer is missing rows",
                    where=str(path),
                    got=f"{there} bytes",
                    expected=f"at least {size}",
                    fix="restore the file, or start a new run",
                )
        self.count = count

    def cut(self, count: int) -> None:
        """Back to so many rows: what came after them is learned anew."""
        self.rewind(count)
        for name in self.fields:
            size, path = count * self.bytes_of(name), self.file(name)
            if path.is_file() and path.stat().st_size > size:
                os.truncate(path, size)

    def examples(self) -> int:
        return self.count

    def padding(self) -> float:
        return 0.0

    def cost(self, step: int) -> int:
        return self.batch

    def __len__(self) -> int:
        """Batches in an epoch: such data has none, and each step counts as one."""
        return 1

    def rows(self, step: int) -> IntegerArray:
        """Drawn with (seed, step) alone from the rows that are there at this step."""
        there = min(self.count, self.room)
        if not there:
            raise InputError("the replay buffer is empty", fix="collect rows before the first training step")
        drawn = uniform_samples(philox(ORDER, self.seed, step), self.batch)
        return (self.count - there + np.minimum((drawn * there).astype(np.int64), there - 1)).astype(np.int64)

    def collate(self, rows: Sequence[int], step: int) -> Any:
        return self.make(self.read(rows))

    def read(self, rows: Sequence[int]) -> dict[str, NDArray[Any]]:
        """(rows, ...) of each field."""
        found = {}
        for name, (kind, shape) in self.fields.items():
            stored = np.memmap(self.file(name), kind, "r", shape=(self.count, *shape))
            found[name] = np.array(stored[np.asarray(rows)])
        return found

    def where(self, rows: Sequence[int]) -> str:
        return f"rows {', '.join(map(str, rows[:5]))} of the replay buffer"
