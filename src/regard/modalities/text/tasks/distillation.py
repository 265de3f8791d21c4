"""A student learns from what a teacher finds likely, not only from what is right.

Hinton, Vinyals and Dean (2015), https://arxiv.org/abs/1503.02531
    L = (1 - a) CE(y, softmax(s)) + a T^2 KL(softmax(t / T) || softmax(s / T))
On the level of whole sequences (Kim and Rush, 2016), https://arxiv.org/abs/1606.07947, no task is needed: the student
is trained on what `regard translate -m TEACHER` makes of the sources.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from regard.modalities.text.pairs import Pairs
from regard.modalities.text.processor import Text
from regard.tasks.task import Loss, Term
from regard.tasks.teacher import distillation_divergence

from .translation import TEACHER_FORCING, Feeding, Translate
from .words import LOAD, load_terms


class Distil(Translate):
    """Translation after a teacher that reads and writes the same tokens. The teacher is no part of what is trained."""

    def __init__(
        self,
        net: nn.Module,
        text: Text | None,
        smoothing: float,
        teacher: nn.Module,
        *,
        share: float = 0.5,
        temperature: float = 1.0,
        feeding: Feeding = TEACHER_FORCING,
        load: float = LOAD,
    ) -> None:
        super().__init__(net, text, smoothing, feeding, load)
        self.teacher: Any = teacher.eval().requires_grad_(False)
        self.share, self.temperature = share, temperature

    def losses(self, batch: Pairs, step: int) -> Iterator[Loss]:
        states = self.states(batch, self.feeding.at(step))
        right = self.score(states, batch, self.smoothing).sum
        with torch.no_grad():
            memory = self.teacher.encode(batch.source, batch.source_keys)
            theirs = self.teacher.decode(batch.given, memory, source_keys=batch.source_keys, keys=batch.keys)
        near = distillation_divergence(self.net.logits(states)[batch.keys], theirs[batch.keys], self.temperature)
        terms = {
            "loss": Term(right, "tokens", weight=1 - self.share),
            "teacher": Term(near, "tokens", weight=self.share),
            **load_terms(states, batch.keys.sum(), self.load),
        }
        yield Loss("net", terms)

    def to(self, device: torch.device) -> None:
        super().to(device)
        self.teacher.to(device)
