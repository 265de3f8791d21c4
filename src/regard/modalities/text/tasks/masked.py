"""Masked modelling: guess hidden tokens from all that surrounds them; and whether one text follows another.

BERT (Devlin et al., 2019), section 3.1. The loss is that of the chosen places alone, with those that stayed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.text.masking import MaskedBatch
from regard.modalities.text.processor import Text
from regard.tasks.task import Loss, Task, Term
from regard.tasks.teacher import Teacher

from .words import word_metrics, word_sums

SHOWN = 2


class Masked(Task):
    def __init__(self, net: nn.Module, text: Text, teacher: Teacher | None = None) -> None:
        self.parts = {"net": net}
        self.net: Any = net  # an encoder: read, score, judged
        self.text, self.teacher = text, teacher

    def counts(self, batch: MaskedBatch) -> Mapping[str, float]:
        return {"tokens": float(batch.chosen.sum()), "texts": float(len(batch.ids))}

    def losses(self, batch: MaskedBatch, step: int) -> Iterator[Loss]:
        states = self.states(self.net, batch)
        right = self.net.score(states[batch.chosen], batch.wanted[batch.chosen]).sum
        terms = {"loss": Term(right, "tokens")}
        if self.teacher is not None:
            with torch.no_grad():
                theirs = self.teacher.net.guessed(self.states(self.teacher.net, batch)[batch.chosen])
            terms = self.teacher.terms(right, self.net.guessed(states[batch.chosen]), theirs, "tokens")
        if batch.follows is not None:
            judged = F.cross_entropy(self.net.judged(states, batch.keys), batch.follows, reduction="sum")
            terms["follows"] = Term(judged, "texts")
        yield Loss("net", terms)

    def states(self, net: Any, batch: MaskedBatch) -> Tensor:
        found: Tensor = net.read(batch.ids, segments=batch.segments, keys=batch.keys)
        return found

    def evaluate(self, batch: MaskedBatch) -> Mapping[str, Tensor]:
        states = self.states(self.net, batch)
        found = self.net.score(states[batch.chosen], batch.wanted[batch.chosen])
        sums = word_sums(found, batch.chosen.sum())
        if batch.follows is not None:
            sums["followed"] = (self.net.judged(states, batch.keys).argmax(-1) == batch.follows).sum()
            sums["texts"] = torch.tensor(len(batch.ids), device=states.device)
        return sums

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        found = word_metrics(sums)
        if "texts" in sums:
            found["follows"] = float(sums["followed"]) / max(float(sums["texts"]), 1.0)
        return found

    def to(self, device: torch.device) -> None:
        super().to(device)
        if self.teacher is not None:
            self.teacher.net.to(device)

    @torch.no_grad()
    def show(self, batch: MaskedBatch) -> str:
        """What was hidden in the first texts, and what the model makes of it."""
        few = slice(0, SHOWN)
        segments, keys = (None if x is None else x[few] for x in (batch.segments, batch.keys))
        logits = self.net(batch.ids[few], segments=segments, keys=keys).words
        lines = []
        for i in range(len(logits)):
            places = batch.chosen[i].nonzero().flatten().tolist()
            right = self.text.labels([int(batch.wanted[i, place]) for place in places])
            said = self.text.labels([int(logits[i, place].argmax()) for place in places])
            told = [
                f"{a.strip()}" if a == b else f"{a.strip()} -> {b.strip()}" for a, b in zip(right, said, strict=True)
            ]
            lines.append("masked (-> prediction, if different): " + ", ".join(told))
        return "\n".join(lines)
