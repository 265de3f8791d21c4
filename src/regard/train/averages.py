"""Averages of weights: a moving one beside the training, and one of the last checkpoints after it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .shards import by_place


class MovingAverage:
    """An exponential moving average of every weight, which evaluates better than the weights themselves."""

    def __init__(self, part: nn.Module, keep: float) -> None:
        self.part, self.keep = part, keep
        self.weights = {name: x.detach().clone() for name, x in part.state_dict().items()}

    @torch.no_grad()
    def update(self) -> None:
        now = self.part.state_dict()
        old = by_place(x for x in self.weights.values() if x.is_floating_point())
        new = by_place(now[name].detach() for name, x in self.weights.items() if x.is_floating_point())
        for some, others in zip(old, new, strict=True):
            torch._foreach_lerp_(some, others, 1 - self.keep)
        for name, x in self.weights.items():
            if not x.is_floating_point():
                x.copy_(now[name])

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within, the part has the averaged weights."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()

    @torch.no_grad()
    def exchange(self) -> None:
        done: set[int] = set()
        for name, x in self.part.state_dict(keep_vars=True).items():
            if id(x) not in done:  # one weight under two names is exchanged once
                done.add(id(x))
                here = x.detach().clone()
                x.copy_(self.weights[name])
                self.weights[name].copy_(here)


def average_weights(tables: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight over several checkpoints; what is not a real number is taken from the last."""
    first, last = tables[0], tables[-1]
    if odd := [name for table in tables for name in table.keys() ^ first.keys()]:
        raise ValueError(f"the checkpoints have different weights: {', '.join(sorted(set(odd))[:5])}")
    if odd := [name for table in tables for name, x in table.items() if x.shape != first[name].shape]:
        raise ValueError(f"the checkpoints have weights of different shapes: {', '.join(sorted(set(odd))[:5])}")
    return {
        name: sum((table[name].double() for table in tables), torch.zeros((), dtype=torch.float64))
        .div(len(tables))
        .to(x.dtype)
        if x.is_floating_point()
        else last[name]
        for name, x in first.items()
    }
