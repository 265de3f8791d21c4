"""Texts put into batches of about as many tokens."""

from collections.abc import Callable

import numpy as np

from regard.data.batches import Batches
from regard.data.order import Order
from regard.data.rows import IntegerArray, Rows
from regard.modalities.run_parts import OpenedData, RunPlan, SplitBatches
from regard.modalities.sources import source_of

from .lengths import share_beyond, token_lengths
from .processor import Text

Make = Callable[[Rows, Order], Batches]


def unchanged_rows(rows: Rows) -> Rows:
    return rows


def lengths_as_read(lengths: IntegerArray, longest: int, shuffle: bool) -> IntegerArray:
    """Of what is longer than is read, only that part counts."""
    return np.minimum(lengths, longest)


def batches_of_texts(
    plan: RunPlan,
    opened: OpenedData,
    text: Text,
    make: Make,
    *,
    longest: int | None,
    rows_of: Callable[[Rows], Rows] = unchanged_rows,
    in_one: bool = False,
    cost: Callable[[IntegerArray, int, bool], IntegerArray] = lengths_as_read,
) -> SplitBatches:
    """Train shuffled, the others in order. ``in_one``: the texts of a row are read as one. ``longest`` are the tokens
    of a row that are read, and ``cost`` what they are to a batch."""
    splits, cut, reached = {}, 0.0, None
    for split, given in opened.splits.items():
        rows, shuffle = rows_of(given), split == "train"
        lengths = token_lengths(rows, text, source_of(plan.data).texts(rows) if rows is given else None)
        if in_one:
            lengths = lengths.sum(1, keepdims=True)
        if longest is not None:
            cut = share_beyond(lengths, longest) if shuffle else cut
            lengths = cost(lengths, longest, shuffle)
        reached = int(lengths.max(initial=0)) if shuffle else reached
        order = Order(len(rows), lengths, budget=plan.data.budget, seed=plan.seed, shuffle=shuffle)
        splits[split] = make(rows, order)
    return SplitBatches(splits, opened.names, longest, cut, reached)
