"""Rows, in an order, made into batches: what the engine trains on."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .counter_rng import AUGMENT, philox
from .order import Order
from .repeated import RepeatedOrder
from .rows import IntegerArray, Rows

SHOWN = 5

Collate = Callable[[Sequence[Any]], Any]
RandomCollate = Callable[[Sequence[Any], Sequence[np.random.Philox]], Any]


class Batches:
    """The batch of any step: ``make`` turns examples into a frozen dataclass of tensors."""

    order: Order | RepeatedOrder

    def __init__(self, rows: Rows, order: Order, make: Collate) -> None:
        self.source, self.order, self.make = rows, order, make

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, step: int) -> IntegerArray:
        return self.order.rows(step)

    def examples(self) -> int:
        return len(self.source)

    def padding(self) -> float:
        """The share of places in batches that only fill up."""
        return self.order.waste()

    def cost(self, step: int) -> int:
        """Of a batch, to be compared with others: its rows, times the pairs of places in the longest."""
        lengths: Any = self.source.lengths
        rows = self.rows(step)
        return len(rows) * (1 if lengths is None else int(lengths[rows].max()) ** 2)

    def collate(self, rows: Sequence[int], step: int) -> Any:
        return self.make([self.source[int(row)] for row in rows])

    def where(self, rows: Sequence[int]) -> str:
        more = [f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return ", ".join([*(self.source.where(int(row)) for row in rows[:SHOWN]), *more])


class RandomBatches(Batches):
    """Batches that chance has a part in: each row of each step has numbers of its own, however the batch is split."""

    def __init__(self, rows: Rows, order: Order, draw: RandomCollate, seed: int) -> None:
        self.source, self.order, self.draw, self.seed = rows, order, draw, seed

    def collate(self, rows: Sequence[int], step: int) -> Any:
        numbers = [philox(AUGMENT, self.seed, step, int(row)) for row in rows]
        return self.draw([self.source[int(row)] for row in rows], numbers)
