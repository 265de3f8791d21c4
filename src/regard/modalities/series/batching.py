"""Windows put into batches. Those that know less stand beside the others with padding on their left.

Shapes: b batch, n places of the longest window, m steps ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import Batches
from regard.data.order import Order
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches

from .windows import SeriesWindow


@dataclass(frozen=True, eq=False)
class WindowBatch:
    values: Tensor  # (b, n), scaled, zeros at padding
    keys: Tensor | None  # (b, n), False at padding; None where there is none
    truth: Tensor  # (b, m): what came after, less the level, in the units of the data
    spread: Tensor  # (b,): of the scale, 0 where nothing moved
    unit: Tensor  # (b,): that errors are told in for MASE, 0 where there is none


def together(rows: Sequence[SeriesWindow]) -> WindowBatch:
    longest = max(len(row.values) for row in rows)
    values = np.zeros((len(rows), longest), np.float32)
    keys = np.zeros(values.shape, bool)
    for i, row in enumerate(rows):
        values[i, longest - len(row.values) :] = row.values
        keys[i, longest - len(row.values) :] = True
    truth = np.stack([row.truth for row in rows]).astype(np.float32)
    return WindowBatch(
        torch.from_numpy(values),
        None if keys.all() else torch.from_numpy(keys),
        torch.from_numpy(truth),
        torch.tensor([row.spread for row in rows]),
        torch.tensor([row.unit for row in rows]),
    )


def window_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Train shuffled, the others in order."""
    made = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows=plan.data.batch, seed=plan.seed, shuffle=split == "train")
        made[split] = Batches(rows, order, together)
    return SplitBatches(made)
