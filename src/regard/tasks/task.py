"""What is learned: a task turns a batch into losses, and into sums for its metrics. It knows no files and no logs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Term:
    """One summand of a loss: a sum over the examples at hand, and the name of the count that it is divided by.

    The count is that of the whole batch, however it is split: see ``Task.counts``.
    """

    sum: Tensor
    count: str
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Loss:
    """What one part of the task shall make small. The part's optimizer steps before the next loss is asked for, unless
    ``update`` is False: then the gradient is only added up."""

    part: str
    terms: Mapping[str, Term]
    update: bool = True


class Task:
    """The seam between what is learned and the engine that trains it."""

    parts: Mapping[str, nn.Module]  # what each optimizer trains; most tasks have one, "net"
    indivisible: tuple[str, ...] = ()  # terms that do not add up over a split of the batch, such as a load balance
    goal: str = (
        "loss"  # the metric by which the best checkpoint is known: the smallest, or with "-" before it the largest
    )

    def counts(self, batch: Any) -> Mapping[str, float]:
        """From the batch alone, before anything is computed: the engine adds them over all of a batch's pieces."""
        raise NotImplementedError

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        """Supervised tasks yield once, a GAN twice. All schedules are functions of ``step``."""
        raise NotImplementedError

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        """Sums (of any shape) that add up over batches and processes."""
        raise NotImplementedError

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """What the sums over all examples mean."""
        raise NotImplementedError

    def show(self, batch: Any) -> str:
        """A few examples for people to look at; empty when there is nothing to see."""
        return ""

    def gather(self, step: int, there: int) -> Sequence[Mapping[str, Any]]:
        """New rows for a task that fills its own data (``data.replay``), before each step, when ``there`` are some
        already: what it did with the weights as they are. All chance in it is drawn from torch's generator."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """What is no module and must outlive a crash: a replay memory, an environment."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        if state:
            raise ValueError(f"this task keeps no state, but was given {', '.join(sorted(state))}")

    def to(self, device: torch.device) -> None:
        for part in self.parts.values():
            part.to(device)
