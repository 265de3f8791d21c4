"""Classification: one label for each example."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.deit import DeiTOutput

from .adversarial import PASSES, adversarial_losses
from .task import Loss, Task, Term
from .teacher import Teacher

SHOWN = 8


@dataclass(frozen=True, eq=False)
class ClassifyBatch:
    """A batch of images, or of whatever else is one tensor."""

    inputs: Tensor  # (b, ...)
    labels: Tensor  # (b,); or a share for each class, (b, classes)

    def logits(self, net: Any) -> Tensor:
        """The logits of a net for this batch.  -> (b, classes)"""
        found: Tensor = net(self.inputs)
        return found


class Classify(Task):
    """Classification. A batch has ``labels``, and ``logits(net)``.

    ``harder`` is the step up to which training is adversarial (``tasks.adversarial``)."""

    goal = "-accuracy"

    def __init__(
        self,
        net: nn.Module,
        names: Sequence[str],
        smoothing: float = 0.0,
        teacher: Teacher | None = None,
        harder: int = 0,
    ) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.names, self.smoothing, self.teacher, self.harder = names, smoothing, teacher, harder

    def counts(self, batch: Any) -> Mapping[str, float]:
        return {"examples": float(len(batch.labels))}

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        if step < self.harder and torch.is_grad_enabled():  # without slopes nothing can be made harder
            yield from self.made_harder(batch)
            return
        said = self.said(batch)
        loss = F.cross_entropy(said.label, batch.labels, reduction="sum", label_smoothing=self.smoothing)
        if self.teacher is None:
            yield Loss("net", {"loss": Term(loss, "examples")})
            return
        with torch.no_grad():
            theirs = batch.logits(self.teacher.net)
        yield Loss("net", self.teacher.terms(loss, said.teacher, theirs, "examples"))

    def made_harder(self, batch: Any) -> Iterator[Loss]:
        """The slopes of all passes are added up, and then the weights go one step."""
        labels = batch.labels
        if labels.ndim == 1:
            labels = F.one_hot(labels, self.net.config.classes)
        labels = labels * (1 - self.smoothing) + self.smoothing / labels.shape[-1]
        for i, loss in enumerate(adversarial_losses(self.net, batch.inputs, labels), 1):
            yield Loss("net", {"loss": Term(loss, "examples")}, update=i == PASSES)

    def said(self, batch: Any) -> DeiTOutput:
        """Of a net with a head for labels and one for what a teacher says, both; else the same twice."""
        if self.teacher is not None and getattr(self.net, "teacher_head", None) is not None:
            answers: DeiTOutput = self.net.answers(batch.inputs)
            return answers
        logits = batch.logits(self.net)
        return DeiTOutput(logits, logits)

    def to(self, device: torch.device) -> None:
        super().to(device)
        if self.teacher is not None:
            self.teacher.net.to(device)

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        logits = batch.logits(self.net)
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
        guesses = batch.logits(self.net)[:SHOWN].argmax(-1)
        told = [
            f"{self.names[int(label)]} -> {self.names[int(guess)]}"
            for label, guess in zip(batch.labels[:SHOWN], guesses, strict=True)
        ]
        return "label -> prediction: " + ", ".join(told)
