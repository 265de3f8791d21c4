"""Classification: one label for each example."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .task import Loss, Task, Term

SHOWN = 8


@dataclass(frozen=True, eq=False)
class Labelled:
    inputs: Tensor  # (b, ...)
    labels: Tensor  # (b,)


class Classify(Task):
    goal = "-accuracy"

    def __init__(self, net: nn.Module, names: Sequence[str], smoothing: float = 0.0) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.names, self.smoothing = names, smoothing

    def counts(self, batch: Labelled) -> Mapping[str, float]:
        return {"examples": float(len(batch.labels))}

    def losses(self, batch: Labelled, step: int) -> Iterator[Loss]:
        loss = F.cross_entropy(self.net(batch.inputs), batch.labels, reduction="sum", label_smoothing=self.smoothing)
        yield Loss("net", {"loss": Term(loss, "examples")})

    def evaluate(self, batch: Labelled) -> Mapping[str, Tensor]:
        logits = self.net(batch.inputs)
        return {
            "loss": F.cross_entropy(logits, batch.labels, reduction="sum"),
            "right": (logits.argmax(-1) == batch.labels).sum(),
            "examples": torch.tensor(len(batch.labels), device=logits.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        examples = max(float(sums["examples"]), 1.0)
        return {"loss": float(sums["loss"]) / examples, "accuracy": float(sums["right"]) / examples}

    @torch.no_grad()
    def show(self, batch: Labelled) -> str:
        guesses = self.net(batch.inputs[:SHOWN]).argmax(-1)
        told = [
            f"{self.names[int(label)]} -> {self.names[int(guess)]}"
            for label, guess in zip(batch.labels[:SHOWN], guesses, strict=True)
        ]
        return "label -> guess: " + ", ".join(told)
