"""A text read through a window, which in training is moved a little by chance, so that no place is always its first."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.batches import Batches, RandomBatches, RandomCollate
from regard.data.counter_rng import uniform_samples
from regard.data.order import Order
from regard.decode.symbols import Symbols
from regard.modalities.run_parts import OpenedData, RunPlan, SplitBatches

from .passages import Passages, TextWindows
from .processor import Text
from .tasks.language import NextTokenBatch, next_tokens
from .vocabulary import framing_tokens


def window_batches(plan: RunPlan, opened: OpenedData, text: Text, length: int, make: RandomCollate) -> SplitBatches:
    splits: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        assert isinstance(rows, Passages)
        windows, shuffled = TextWindows(rows, text, length), split == "train"
        order = Order(len(windows), rows=max(plan.data.budget // length, 1), seed=plan.seed, shuffle=shuffled)
        splits[split] = RandomBatches(windows, order, WindowMaker(length, make, moved=shuffled), plan.seed)
    return SplitBatches(splits, longest=length, reached=length)


class WindowMaker:
    """Windows of so many tokens, at their place or a little further, given to what makes batches of them."""

    def __init__(self, length: int, make: RandomCollate, *, moved: bool) -> None:
        self.length, self.make, self.moved = length, make, moved

    def __call__(self, rows: Sequence[Any], numbers: Sequence[np.random.Philox]) -> Any:
        places = [0] * len(rows)
        if self.moved:
            free = [max(len(row) - self.length, 0) for row in rows]
            places = [int(uniform_samples(own, 1)[0] * (room + 1)) for own, room in zip(numbers, free, strict=True)]
        return self.make([row[i : i + self.length] for row, i in zip(rows, places, strict=True)], numbers)


class PassageMaker:
    """Windows into rows of ids behind a begin: wherever it is in the text, that is where the model begins."""

    def __init__(self, text: Text, symbols: Symbols | None = None) -> None:
        self.begin, _ = framing_tokens(text, symbols)

    def __call__(self, rows: Sequence[Any], numbers: Sequence[np.random.Philox]) -> NextTokenBatch:
        return next_tokens([[self.begin, *row.tolist()] for row in rows])
