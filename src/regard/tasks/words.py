"""What all tasks that foretell words have in common: sums that become loss, perplexity and accuracy."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from regard.nn.loss import CrossEntropy


def word_sums(found: CrossEntropy, count: Tensor) -> dict[str, Tensor]:
    return {"loss": found.plain, "right": found.right, "tokens": count}


def word_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    tokens = max(float(sums["tokens"]), 1.0)
    loss = float(sums["loss"]) / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": float(sums["right"]) / tokens}


def amount(keys: Tensor | None, ids: Tensor) -> Tensor:
    """How many real tokens."""
    return torch.tensor(ids.numel(), device=ids.device) if keys is None else keys.sum()
