"""Answering: where in a text the answer to a question begins and ends.

BERT (Devlin et al., 2019), section 4.2: each token is rated as the answer's first and as its last, and the loss is the
mean of the two cross-entropies.
Differs from the paper: only tokens of the context can be chosen, in training too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.text.framing import AnswerBatch
from regard.modalities.text.overlap import exact, f1
from regard.tasks.task import Loss, Task, Term

LONGEST = 30  # tokens of an answer
SHOWN = 3


@dataclass(frozen=True, eq=False)
class AnswerSpans:
    first: Tensor  # (b,)
    last: Tensor  # (b,)
    chances: Tensor  # (b,): how likely the first token is, times how likely the last is


def inside(logits: Tensor, context: Tensor) -> Tensor:
    """(b, n, 2), (b, n) -> (b, n, 2): no token but those of the context can be chosen. The number is finite, so that a
    text of which a tokenizer left nothing has no gradient, rather than one that is no number."""
    return logits.masked_fill(~context[..., None], torch.finfo(logits.dtype).min)


def best_spans(logits: Tensor, context: Tensor) -> AnswerSpans:
    """(b, n, 2), (b, n) -> the likeliest span of each row; where there is no context, the first token with chance 0"""
    chances = inside(logits.float(), context).softmax(1) * context[..., None]
    lasts = F.pad(chances[..., 1], (0, LONGEST - 1)).unfold(1, LONGEST, 1)  # (b, n, l): from each token on
    chance, place = (chances[..., 0, None] * lasts).flatten(1).max(1)
    first = place // LONGEST
    return AnswerSpans(first, first + place % LONGEST, chance)


class FindAnswer(Task):
    goal = "-f1"

    def __init__(self, net: nn.Module) -> None:
        self.parts = {"net": net}
        self.net: Any = net

    def counts(self, batch: AnswerBatch) -> Mapping[str, float]:
        return {"answers": float((batch.starts >= 0).sum())}

    def losses(self, batch: AnswerBatch, step: int) -> Iterator[Loss]:
        yield Loss("net", {"loss": Term(self.loss(self.logits(batch), batch), "answers")})

    def logits(self, batch: AnswerBatch) -> Tensor:
        """-> (b, n, 2)"""
        found: Tensor = self.net.spanned(batch.ids, segments=batch.segments, keys=batch.keys)
        return found

    def loss(self, logits: Tensor, batch: AnswerBatch) -> Tensor:
        first, last = (
            F.cross_entropy(rated, wanted, ignore_index=-1, reduction="sum")
            for rated, wanted in zip(inside(logits, batch.context).unbind(-1), (batch.starts, batch.ends), strict=True)
        )
        return (first + last) / 2

    def evaluate(self, batch: AnswerBatch) -> Mapping[str, Tensor]:
        logits = self.logits(batch)
        pairs = [(said, row.answer) for said, row in zip(self.said(logits, batch), batch.questions, strict=True)]
        return {
            "loss": self.loss(logits, batch),
            "answers": (batch.starts >= 0).sum(),
            "exact": torch.tensor(sum(exact(*pair) for pair in pairs), device=logits.device),
            "f1": torch.tensor(sum(f1(*pair) for pair in pairs), device=logits.device),
            "questions": torch.tensor(len(pairs), device=logits.device),
        }

    def said(self, logits: Tensor, batch: AnswerBatch) -> list[str]:
        """The answer to each question, as it stands in the context: the likeliest of all parts."""
        spans = best_spans(logits, batch.context)
        every = torch.arange(len(logits), device=logits.device)
        starts, ends = batch.offsets[every, spans.first, 0], batch.offsets[every, spans.last, 1]
        rows = zip(*(x.tolist() for x in (batch.numbers, starts, ends, spans.chances)), strict=True)
        found = [("", -1.0)] * len(batch.questions)
        for number, start, end, chance in rows:
            if chance > found[number][1]:
                found[number] = (batch.questions[number].context[start:end].strip(), chance)
        return [text for text, _ in found]

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        answers, questions = (max(float(sums[name]), 1.0) for name in ("answers", "questions"))
        return {
            "loss": float(sums["loss"]) / answers,
            "exact": float(sums["exact"]) / questions,
            "f1": float(sums["f1"]) / questions,
        }

    @torch.no_grad()
    def show(self, batch: AnswerBatch) -> str:
        lines = []
        for row, said in list(zip(batch.questions, self.said(self.logits(batch), batch), strict=True))[:SHOWN]:
            lines += [f"question    {row.question}", f"answer      {row.answer}", f"prediction  {said}"]
        return "\n".join(lines)
