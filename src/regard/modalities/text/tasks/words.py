"""What all tasks that foretell words have in common: sums that become loss, perplexity and accuracy."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.nn.loss import CrossEntropy
from regard.nn.switch import RoutedStates
from regard.tasks.task import Term


def word_sums(found: CrossEntropy, count: Tensor) -> dict[str, Tensor]:
    return {"loss": found.plain, "right": found.right, "tokens": count}


def word_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    tokens = max(float(sums["tokens"]), 1.0)
    loss = float(sums["loss"]) / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": float(sums["right"]) / tokens}


def amount(keys: Tensor | None, ids: Tensor) -> Tensor:
    """How many real tokens."""
    return torch.tensor(ids.numel(), device=ids.device) if keys is None else keys.sum()


LOAD = 0.01  # alpha of Fedus et al. (2021), section 2.2


def load_terms(states: Any, tokens: Tensor, weight: float) -> dict[str, Term]:
    """Of states that were routed: the load, to be made small, and how often a token found no place, to be seen.

    The load is one number for all tokens; of a batch in pieces it is their mean, each piece weighed by its tokens.
    """
    if not isinstance(states, RoutedStates):
        return {}
    return {"load": Term(states.load * tokens, "tokens", weight), "dropped": Term(states.dropped, "tokens", 0.0)}
