"""Tagging: a label for each word."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.text.framing import TaggedBatch
from regard.modalities.text.processor import Text
from regard.tasks.task import Loss, Task, Term


class Tag(Task):
    goal = "-accuracy"

    def __init__(self, net: nn.Module, text: Text, names: Sequence[str]) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.text, self.names = text, names

    def counts(self, batch: TaggedBatch) -> Mapping[str, float]:
        return {"words": float((batch.tags >= 0).sum())}

    def losses(self, batch: TaggedBatch, step: int) -> Iterator[Loss]:
        yield Loss("net", {"loss": Term(self.loss(self.logits(batch), batch), "words")})

    def logits(self, batch: TaggedBatch) -> Tensor:
        found: Tensor = self.net.tagged(batch.ids, segments=batch.segments, keys=batch.keys)
        return found

    def loss(self, logits: Tensor, batch: TaggedBatch) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), batch.tags.flatten(), ignore_index=-1, reduction="sum")

    def evaluate(self, batch: TaggedBatch) -> Mapping[str, Tensor]:
        """A word that was cut off, or of which a tokenizer left nothing, is one that was tagged wrong."""
        logits = self.logits(batch)
        right = (logits.argmax(-1) == batch.tags) & (batch.tags >= 0)
        return {
            "loss": self.loss(logits, batch),
            "right": right.sum(),
            "tagged": (batch.tags >= 0).sum(),
            "words": batch.words.sum(),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        tagged, words = (max(float(sums[name]), 1.0) for name in ("tagged", "words"))
        return {"loss": float(sums["loss"]) / tagged, "accuracy": float(sums["right"]) / words}

    @torch.no_grad()
    def show(self, batch: TaggedBatch) -> str:
        """The pieces of the first text that have a tag, and what the model says."""
        said, tags = self.logits(batch)[0].argmax(-1).tolist(), batch.tags[0].tolist()
        pieces = self.text.labels(batch.ids[0].tolist())
        told = [
            f"{piece.strip()} {self.names[tag]}" + ("" if tag == guess else f" -> {self.names[guess]}")
            for piece, tag, guess in zip(pieces, tags, said, strict=True)
            if tag >= 0
        ]
        return "word tag (-> prediction, if different): " + ", ".join(told)
