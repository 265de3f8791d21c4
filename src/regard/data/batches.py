"""Rows, in an order, made into batches: what the engine trains on."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .counter_rng import AUGMENT, philox
from .order import Order
from .repeated import RepeatedOrder
from .rows import Numbers, Rows

SHOWN = 5

Collate = Callable[[Sequence[Any]], Any]
Drawing = Callable[[Sequence[Any], Sequence[np.random.Philox]], Any]


class Batches:
    """The batch of any step: ``make`` turns examples into a frozen dataclass of tensors."""

    order: Order | RepeatedOrder

    def __init__(self, rows: Rows, order: Order, make: Collate) -> None:
        self.source, self.order, self.make = rows, order, make

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, step: int) -> Numbers:
        return self.order.rows(step)

    def collate(self, rows: Sequence[int], step: int) -> Any:
        return self.make([self.source[int(row)] for row in rows])

    def where(self, rows: Sequence[int]) -> str:
        more = [f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return ", ".join([*(self.source.where(int(row)) for row in rows[:SHOWN]), *more])


class RandomBatches(Batches):
    """Batches that chance has a part in: each row of each step has numbers of its own, however the batch is split."""

    def __init__(self, rows: Rows, order: Order, draw: Drawing, seed: int) -> None:
        self.source, self.order, self.draw, self.seed = rows, order, draw, seed

    def collate(self, rows: Sequence[int], step: int) -> Any:
        numbers = [philox(AUGMENT, self.seed, step, int(row)) for row in rows]
        return self.draw([self.source[int(row)] for row in rows], numbers)
