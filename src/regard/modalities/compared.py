"""How `regard compare` puts a model of a family to work: inputs of any length, what it learns from them, and what comes
out. A family's row names a function of its config, a text file or None, and a seed, which gives this."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from regard.decode.incremental import IncrementalDecoder
from regard.tasks.task import Task


class TrainedSubject(Protocol):
    """A model at work. What it learns is a task, as in a run; a batch is what that task takes."""

    unit: str  # what lengths count
    data: str  # what it learns from

    def real(self, length: int) -> int:
        """The nearest length that there is."""
        ...

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        """The keys of its config for inputs of this length."""
        ...

    def notes(self, config: Any, lengths: Sequence[int]) -> list[str]:
        """What is not as the model's name says, dropout aside."""
        ...

    def task(self, net: nn.Module) -> Task: ...

    def one(self, length: int) -> Any:
        """A batch of one row, always the same."""
        ...

    def some(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool = False) -> Any:
        """A batch to learn from, or to measure on."""
        ...

    def outputs(self, net: Any, batch: Any) -> Tensor:
        """What the net makes of a batch, to be compared with what another net makes of it."""
        ...

    def writer(self, net: nn.Module, batch: Any, room: int) -> IncrementalDecoder | None:
        """The net as it writes, all but the last ``room`` tokens read; None for what does not write."""
        ...


def without_dropout(config: Any) -> dict[str, float]:
    """It would only hide what an attention does, and some refuse it."""
    named = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: 0.0 for name, value in named.items() if name.endswith(("dropout", "drop_path")) and value}
