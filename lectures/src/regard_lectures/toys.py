"""The training loop of the toys: enough for what learns in seconds; everything larger goes through the engine."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def fit(parameters: Iterable[Tensor], loss: Callable[[], Tensor], *, steps: int, rate: float) -> list[float]:
    """Adam with a rate that falls to zero along a cosine; ``loss`` draws its own batch. -> the loss at every step"""
    optimizer = torch.optim.Adam(parameters, rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        schedule.step()
        history.append(value.item())
    return history


def means(runs: Sequence[Sequence[float]]) -> list[float]:
    """The mean over runs, place by place."""
    return [sum(values) / len(values) for values in zip(*runs, strict=True)]
