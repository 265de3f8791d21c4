"""Which rows make which batch, as a function of seed and step alone: any step can be asked for first.

Rows are sorted by their lengths and cut into batches. The cuts depend on the lengths alone, so that every epoch has as
many; what each epoch draws anew is the place of a row among those of its lengths, and the order of the batches.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .counter_rng import ORDER, permutation, philox
from .rows import IntegerArray


@dataclass(frozen=True, eq=False)
class Epoch:
    number: int
    rows: NDArray[np.int64]  # sorted by length
    batches: NDArray[np.int64]  # which of the cuts comes at which step


class Order:
    """``rows(step)`` for any step; the length is the number of batches in an epoch.

    A batch holds at most ``rows`` rows and at most ``budget`` padded positions: its rows × the sum over fields of the
    longest. A row that is longer than the budget stands alone. Without ``shuffle``, as for evaluation, all epochs are
    the same, from the shortest rows to the longest. Without lengths nothing is sorted.
    """

    def __init__(
        self,
        count: int,
        lengths: IntegerArray | None = None,
        *,
        budget: int | None = None,
        rows: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        check(count, lengths, budget, rows)
        self.seed, self.shuffle = seed, shuffle
        table = np.zeros((count, 1), np.int8) if lengths is None else lengths.reshape(count, -1)
        order = np.lexsort(table.T[::-1])  # the first field counts first
        table = table[order]
        new = np.append(True, (table[1:] != table[:-1]).any(axis=1))  # where rows of other lengths begin
        self.groups = np.empty(count, np.uint64)  # rows of the same lengths are a group, numbered from the shortest
        self.groups[order] = np.cumsum(new) - 1
        first = np.flatnonzero(new)
        self.cuts = cut(table[first], np.diff(first, append=count), budget or sys.maxsize, rows or count)
        longest = np.maximum.reduceat(table, self.cuts[:-1], axis=0).sum(axis=1, dtype=np.int64)
        self.padded, self.real = int((longest * np.diff(self.cuts)).sum()), int(table.sum(dtype=np.int64))
        self.current: Epoch | None = None

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def rows(self, step: int) -> NDArray[np.int64]:
        epoch, place = divmod(step, len(self))
        current = self.epoch(epoch if self.shuffle else 0)
        batch = current.batches[place]
        return current.rows[self.cuts[batch] : self.cuts[batch + 1]].copy()

    def waste(self) -> float:
        """Padded positions / real positions; 1 where nothing is known of lengths."""
        return self.padded / self.real if self.real else 1.0

    def epoch(self, number: int) -> Epoch:
        """The last one is kept: steps mostly follow each other."""
        current = self.current
        if current is None or current.number != number:
            numbers = philox(ORDER, self.seed, number)
            if self.shuffle:
                # The group in the upper bits and chance in the lower ones: one sort does both.
                bits = np.uint64(max(1, int(self.groups.max()).bit_length()))
                keys = self.groups << (np.uint64(64) - bits) | numbers.random_raw(len(self.groups)) >> bits
                batches = permutation(numbers, len(self))
            else:
                keys, batches = self.groups, np.arange(len(self))
            self.current = current = Epoch(number, np.argsort(keys, kind="stable"), batches)
        return current


def cut(lengths: IntegerArray, sizes: NDArray[np.int64], budget: int, rows: int) -> NDArray[np.int64]:
    """Where batches begin, and the end of the last: each takes as many of the sorted rows as it may.

    ``lengths`` (groups, fields) are those of rows that are alike, ``sizes`` how many rows there are of each: the cost
    grows with the number of groups and batches, not of rows.
    """
    cuts, place, held = [0], 0, 0
    longest = start = [0] * lengths.shape[1]
    for group, size in zip(lengths.tolist(), sizes.tolist(), strict=True):
        while size:
            joined = list(map(max, longest, group))
            room = max(1, min(rows, budget // max(1, sum(joined)))) - held
            if room > 0:
                taken = min(room, size)
                place, held, size, longest = place + taken, held + taken, size - taken, joined
            else:
                cuts.append(place)
                held, longest = 0, start
    return np.array([*cuts, place])


def check(count: int, lengths: IntegerArray | None, budget: int | None, rows: int | None) -> None:
    if count < 1:
        raise InputError("the data has no rows to batch")
    if budget is None and rows is None:
        raise InputError("the batch size is not set", expected="a budget of padded positions, or a number of rows")
    if budget is not None and lengths is None:
        raise InputError(
            "a batch budget needs row lengths, and these rows have none", fix="set a number of rows instead"
        )
    for name, value in (("budget", budget), ("rows", rows)):
        if value is not None and value < 1:
            raise InputError(f"batch {name} must be at least 1", got=str(value))
    if lengths is not None and (len(lengths) != count or lengths.ndim > 2 or lengths.min() < 0):
        raise InputError(
            "lengths must hold one row of non-negative numbers for each example",
            got=f"shape {lengths.shape}, smallest {lengths.min()}",
            expected=f"({count},) or ({count}, fields)",
        )
