"""Language modelling: foretell each token from those before it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.modalities.text.processor import pad_ids
from regard.nn.loss import CrossEntropy
from regard.nn.switch import switch_layers
from regard.tasks.task import Loss, Task, Term

from .words import LOAD, amount, load_terms, word_metrics, word_sums


@dataclass(frozen=True, eq=False)
class NextTokenBatch:
    """What is given, and what comes next at each place."""

    given: Tensor  # (b, n)
    wanted: Tensor  # (b, n)
    keys: Tensor | None  # (b, n), False at padding


def next_tokens(rows: Sequence[Sequence[int]]) -> NextTokenBatch:
    """Rows of at least two ids."""
    given, wanted = pad_ids([row[:-1] for row in rows]), pad_ids([row[1:] for row in rows])
    return NextTokenBatch(given.ids, wanted.ids, given.keys)


class Language(Task):
    def __init__(
        self, net: nn.Module, smoothing: float = 0.0, widths: Sequence[int] | None = None, load: float = LOAD
    ) -> None:
        """``widths`` are the bytes of text that each token stands for: by them, models with other tokens compare."""
        self.parts = {"net": net}
        self.net: Any = net  # a decoder: read, score
        self.smoothing, self.load = smoothing, load
        self.widths = None if widths is None else torch.tensor(widths)
        self.indivisible = ("load",) if switch_layers(net) else ()

    def counts(self, batch: NextTokenBatch) -> Mapping[str, float]:
        return {"tokens": float(amount(batch.keys, batch.wanted))}

    def losses(self, batch: NextTokenBatch, step: int) -> Iterator[Loss]:
        states = self.net.read(batch.given, keys=batch.keys)
        more = load_terms(states, amount(batch.keys, batch.wanted), self.load)
        yield Loss("net", {"loss": Term(self.score(states, batch, self.smoothing).sum, "tokens"), **more})

    def score(self, states: Any, batch: NextTokenBatch, smoothing: float) -> CrossEntropy:
        found: CrossEntropy = self.net.score(states, batch.wanted, real=batch.keys, smoothing=smoothing)
        return found

    def evaluate(self, batch: NextTokenBatch) -> Mapping[str, Tensor]:
        states = self.net.read(batch.given, keys=batch.keys)
        sums = word_sums(self.score(states, batch, 0.0), amount(batch.keys, batch.wanted))
        if self.widths is not None:
            real = batch.wanted if batch.keys is None else batch.wanted[batch.keys]
            sums["bytes"] = self.widths.to(real.device)[real].sum()
        return sums

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        found = word_metrics(sums)
        if "bytes" in sums:
            found["bits_per_byte"] = float(sums["loss"]) / math.log(2) / max(float(sums["bytes"]), 1.0)
        return found
