"""Several copies of an image in one batch, each changed in another way.

Augment Your Batch (Hoffer et al., 2020), https://arxiv.org/abs/1901.09335; MultiGrain (Berman et al., 2019),
https://arxiv.org/abs/1902.05509, section 3.2
An epoch has as many steps as without copies, so with r copies it sees one in r of the images.

A copy has a number of its own, row * r + copy, by which chance is drawn for it: copies differ from each other, and
however a batch is split, each is the same.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

from .order import Order
from .rows import Rows


class RepeatedRows:
    """Rows: each ``copies`` times in a row."""

    def __init__(self, rows: Rows, copies: int) -> None:
        self.source, self.copies, self.faults = rows, copies, rows.faults
        self.lengths = None if rows.lengths is None else np.repeat(rows.lengths, copies, axis=0)

    def __len__(self) -> int:
        return len(self.source) * self.copies

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(f"copy index {i} is out of range for {len(self)} copies")
        return self.source[i // self.copies]

    def where(self, i: int) -> str:
        return self.source.where(i // self.copies)


class RepeatedOrder:
    """``rows(step)`` as ``Order`` has it, of the numbers of copies: all of a row's are in one batch."""

    def __init__(self, count: int, *, rows: int, copies: int, seed: int = 0) -> None:
        if copies < 1 or rows % copies:
            raise InputError(
                "a batch must hold all copies of each of its images",
                got=f"{rows} rows, {copies} copies",
                expected="a number of rows that is a multiple of the number of copies",
            )
        self.copies, self.steps = copies, len(Order(count, rows=rows, seed=seed))
        self.order = Order(count, rows=rows // copies, seed=seed)

    def __len__(self) -> int:
        return self.steps

    def waste(self) -> float:
        """As ``Order`` has it: all images cost the same."""
        return 1.0

    def rows(self, step: int) -> NDArray[np.int64]:
        epoch, place = divmod(step, len(self))
        found = self.order.rows(epoch * len(self.order) + place)
        return (found[:, None] * self.copies + np.arange(self.copies)).reshape(-1)
