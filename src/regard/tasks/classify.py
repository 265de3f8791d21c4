"""Classification: one label for each example."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.framed import Texts

from .task import Loss, Task, Term
from .teacher import Teacher

SHOWN = 8


@dataclass(frozen=True, eq=False)
class Labelled:
    """A batch of images, or of whatever else is one tensor."""

    inputs: Tensor  # (b, ...)
    labels: Tensor  # (b,)


class Classify(Task):
    goal = "-accuracy"

    def __init__(
        self, net: nn.Module, names: Sequence[str], smoothing: float = 0.0, teacher: Teacher | None = None
    ) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.names, self.smoothing, self.teacher = names, smoothing, teacher

    def counts(self, batch: Any) -> Mapping[str, float]:
        return {"examples": float(len(batch.labels))}

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        logits = self.logits(self.net, batch)
        loss = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.smoothing)
        if self.teacher is None:
            yield Loss("net", {"loss": Term(loss, "examples")})
            return
        with torch.no_grad():
            theirs = self.logits(self.teacher.net, batch)
        yield Loss("net", self.teacher.terms(loss, logits, theirs, "examples"))

    def logits(self, net: Any, batch: Any) -> Tensor:
        """-> (b, c)"""
        found: Tensor = net(batch.inputs)
        return found

    def to(self, device: torch.device) -> None:
        super().to(device)
        if self.teacher is not None:
            self.teacher.net.to(device)

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        logits = self.logits(self.net, batch)
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
        guesses = self.logits(self.net, batch)[:SHOWN].argmax(-1)
        told = [
            f"{self.names[int(label)]} -> {self.names[int(guess)]}"
            for label, guess in zip(batch.labels[:SHOWN], guesses, strict=True)
        ]
        return "label -> guess: " + ", ".join(told)


class ClassifyText(Classify):
    """The same for texts, or pairs of them."""

    def logits(self, net: Any, batch: Texts) -> Tensor:
        found: Tensor = net.labelled(batch.ids, segments=batch.segments, keys=batch.keys)
        return found
