"""Translation: foretell each word of the target from the source and the words before it."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.pairs import Pairs
from regard.data.text import Text
from regard.nn.loss import CrossEntropy

from .task import Loss, Task, Term
from .words import word_metrics, word_sums

SHOWN = 3


class Translate(Task):
    def __init__(self, net: nn.Module, text: Text, smoothing: float) -> None:
        self.parts = {"net": net}
        self.net: Any = net  # an encoder-decoder: encode, read, score
        self.text, self.smoothing = text, smoothing

    def counts(self, batch: Pairs) -> Mapping[str, float]:
        return {"tokens": float(batch.keys.sum())}

    def losses(self, batch: Pairs, step: int) -> Iterator[Loss]:
        yield Loss("net", {"loss": Term(self.foretell(batch, self.smoothing).sum, "tokens")})

    def foretell(self, batch: Pairs, smoothing: float) -> CrossEntropy:
        memory = self.net.encode(batch.source, batch.source_keys)
        states = self.net.read(batch.given, memory, source_keys=batch.source_keys, keys=batch.keys)
        found: CrossEntropy = self.net.score(states, batch.wanted, real=batch.keys, smoothing=smoothing)
        return found

    def evaluate(self, batch: Pairs) -> Mapping[str, Tensor]:
        return word_sums(self.foretell(batch, 0.0), batch.keys.sum())

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return word_metrics(sums)

    @torch.no_grad()
    def show(self, batch: Pairs) -> str:
        """Some sentences, and what the model would say next at each word of the true target."""
        few = slice(0, SHOWN)
        keys = None if batch.source_keys is None else batch.source_keys[few]
        guesses = self.net(batch.source[few], batch.given[few], source_keys=keys, keys=batch.keys[few]).argmax(-1)
        lines = []
        for i in range(len(guesses)):
            real = batch.keys[i]
            lines += [
                f"source   {self.text.decode(batch.source[i].tolist()).strip()}",
                f"target   {self.text.decode(batch.wanted[i][real].tolist()).strip()}",
                f"guesses  {self.text.decode(guesses[i][real].tolist()).strip()}",
            ]
        return "\n".join(lines)
