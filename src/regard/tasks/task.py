"""Training tasks: a task turns a batch into losses, and into sums for its metrics. It knows no files and no logs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Term:
    """One term of a loss: a sum over the given examples, and the name of the count that it is divided by.

    The count is that of the full batch, however it is split: see ``Task.counts``.
    """

    sum: Tensor
    count: str
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss that one part of the task minimizes. The part's optimizer steps before the next loss is computed, unless
    ``update`` is False: then the gradient is only accumulated."""

    part: str
    terms: Mapping[str, Term]
    update: bool = True


class Task:
    """Base class of training tasks: the interface between a task and the training engine."""

    parts: Mapping[str, nn.Module]  # modules, each trained by its own optimizer; most tasks have one, "net"
    indivisible: tuple[str, ...] = ()  # terms that do not add up over a split of the batch, such as a load balance
    goal: str = "loss"  # metric that selects the best checkpoint: the smallest value, or with "-" before it the largest

    def counts(self, batch: Any) -> Mapping[str, float]:
        """Counts that loss terms are divided by, from the batch alone. The engine adds them over its parts."""
        raise NotImplementedError

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        """The losses of a training step: one for a supervised task, two for a GAN."""
        raise NotImplementedError

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        """Sums (of any shape) for the metrics; they are added over batches and processes."""
        raise NotImplementedError

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Metrics from the sums over all examples."""
        raise NotImplementedError

    def show(self, batch: Any) -> str:
        """A few examples with predictions as text; empty if there is nothing to show."""
        return ""

    def gather(self, step: int, there: int) -> Sequence[Mapping[str, Any]]:
        """New rows for a task that generates its own data (``data.replay``), collected with the current weights before
        each step; ``there`` is the number of existing rows. Random numbers must come from torch's generator."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """State outside of modules that checkpoints must keep: a replay buffer, an environment."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        if state:
            raise ValueError(f"this task has no state, but got {', '.join(sorted(state))}")

    def to(self, device: torch.device) -> None:
        for part in self.parts.values():
            part.to(device)
