"""What every reader gives, what the loader takes, and how a part is held out."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .counter_rng import HOLDOUT, permutation, philox
from .faults import Fault

IntegerArray = NDArray[np.integer[Any]]


class Rows(Protocol):
    """Examples that can be read by number, in any order, from any process."""

    @property
    def faults(self) -> Sequence[Fault]:
        """What was left out, and is not counted in the length."""

    @property
    def lengths(self) -> IntegerArray | None:
        """(n,) or (n, fields): what each costs, such as tokens or bytes; None where all cost the same."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> Any: ...

    def where(self, i: int) -> str:
        """Where a row stands, for people: a file and a line."""


class Data(Protocol):
    """Batches by step: ``rows`` says which examples a step takes, ``collate`` makes a batch of any of them."""

    def __len__(self) -> int:
        """Batches in an epoch."""

    def rows(self, step: int) -> Sequence[int] | IntegerArray: ...

    def collate(self, rows: Sequence[int], step: int) -> Any: ...

    def where(self, rows: Sequence[int]) -> str:
        """Where these rows stand, for people."""


class Subset:
    """Some of the rows, under new numbers."""

    def __init__(self, rows: Rows, indices: IntegerArray, faults: Sequence[Fault] = ()) -> None:
        self.source, self.indices, self.faults = rows, indices, faults
        self.lengths = None if rows.lengths is None else rows.lengths[indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        return self.source[int(self.indices[i])]

    def where(self, i: int) -> str:
        return self.source.where(int(self.indices[i]))


def labels_of_rows(rows: Any) -> IntegerArray | None:
    """The number of each row's label, without reading the rows; None where they have none, or nobody knows."""
    if isinstance(rows, Subset):
        found = labels_of_rows(rows.source)
        return None if found is None else found[rows.indices]
    labels: IntegerArray | None = getattr(rows, "row_labels", None)
    return labels


def split_held_out(rows: Rows, size: int | float, seed: int) -> tuple[Subset, Subset]:
    """Rows to train on, and a number or a share of them to validate on: the same ones for the same seed.

    The faults stay with the first. They were found in all rows, so hold them against the whole (``tolerate``).
    """
    learned, kept_out = split_indices(len(rows), size, seed)
    return Subset(rows, learned, rows.faults), Subset(rows, kept_out)


def split_indices(total: int, size: int | float, seed: int, what: str = "rows") -> tuple[IntegerArray, IntegerArray]:
    """The numbers below ``total`` in two parts, each in order; the second has ``size`` of them, or this share."""
    count = size if isinstance(size, int) else max(1, round(size * total))
    if not 1 <= count < total:
        raise InputError(
            f"both the training split and the held-out split must have {what}",
            got=f"{size} of {total} {what} to hold out",
            expected=f"a whole number of {what}, or a fraction between 0 and 1",
        )
    order = permutation(philox(HOLDOUT, seed, 0), total)
    return np.sort(order[count:]), np.sort(order[:count])
