"""Classification: one label for each example."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.framed import Texts

from .task import Loss, Task, Term

SHOWN = 8


@dataclass(frozen=True, eq=False)
class Labelled:
    """A batch of images, or of whatever else is one tensor."""

    inputs: Tensor  # (b, ...)
    labels: Tensor  # (b,)


class Classify(Task):
    goal = "-accuracy"

    def __init__(self, net: nn.Module, names: Sequence[str], smoothing: float = 0.0) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.names, self.smoothing = names, smoothing

    def counts(self, batch: Any) -> Mapping[str, float]:
        return {"examples": float(len(batch.labels))}

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        logits = self.logits(batch)
        loss = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.smoothing)
        yield Loss("net", {"loss": Term(loss, "examples")})

    def logits(self, batch: Any) -> Tensor:
        """-> (b, c)"""
        found: Tensor = self.net(batch.inputs)
        return found

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        logits = self.logits(batch)
        return {
            "loss": F.cross_entropy(logits, batch.labels, reduction="sum"),
            "right": (logits.argmax(-1) == batch.labels).sum(),
            "examples": torch.tensor(len(batch.labels), device=logits.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        examples = max(float(sums["examples"]), 1.0)
        return {"loss": float(sums["loss"]) / examples, "accuracy": float(sums["right"]) / examples}

    @torch.no_grad()
    def show(self, batch: Any) -> str:
        guesses = self.logits(batch)[:SHOWN].argmax(-1)
        told = [
            f"{self.names[int(label)]} -> {self.names[int(guess)]}"
            for label, guess in zip(batch.labels[:SHOWN], guesses, strict=True)
        ]
        return "label -> guess: " + ", ".join(told)


class ClassifyText(Classify):
    """The same for texts, or pairs of them."""

    def logits(self, batch: Texts) -> Tensor:
        found: Tensor = self.net.labelled(batch.ids, segments=batch.segments, keys=batch.keys)
        return found
