"""Batch norms <-> PyTorch's: its names for what was measured, and its counter."""

import torch
from torch import Tensor

from .rules import Entry, Idle, Rule, several
from .tensor_ops import SAME, Op

PAIRS = {"weight": "weight", "bias": "bias", "running_mean": "mean", "running_var": "variance"}
WHY = "how many batches were seen, which matters only without a momentum"


def frozen_norm(theirs: str, ours: str | tuple[str, ...], op: Op = SAME) -> list[Entry]:
    """Rules of a batch norm without a counter; with ``op``, its channels may belong to several of our norms."""
    return [Rule(theirs + there, tuple(name + here for name in several(ours)), op) for there, here in PAIRS.items()]


def batch_norm(theirs: str, ours: str | tuple[str, ...], op: Op = SAME) -> list[Entry]:
    counter = Idle(theirs + "num_batches_tracked", several(ours)[0] + "mean", no_batches, WHY)
    return [*frozen_norm(theirs, ours, op), counter]


def no_batches() -> Tensor:
    return torch.zeros((), dtype=torch.long)
