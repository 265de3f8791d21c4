"""Translation: foretell each word of the target from the source and the words before it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.net_needs import NetCall
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.processor import Text
from regard.nn.cache import Cache
from regard.nn.loss import CrossEntropy
from regard.nn.switch import switch_layers
from regard.tasks.task import Loss, Task, Term

from .words import LOAD, load_terms, word_metrics, word_sums

EXAMPLES_SHOWN = 3


@dataclass(frozen=True)
class Feeding:
    """What a decoder is given while it learns: the word that should stand before, or the one it would have said.

    Teacher forcing (Williams and Zipser, 1989) is a share of 1, back-feeding one of 0. Scheduled sampling (Bengio et
    al., 2015), https://arxiv.org/abs/1506.03099: the share falls with the step i as k / (k + exp(i / k)).
    """

    share: float = 1.0
    k: float = 0.0  # 0: the share stays

    def at(self, step: int) -> float:
        return self.share if not self.k else self.share * self.k / (self.k + math.exp(min(step / self.k, 700.0)))


ENCODER_DECODER_CALLS = (
    NetCall("encode", "source, keys", "memory"),
    NetCall("read", "target, memory, source_keys=, keys=", "states (b, m, dim)"),
    NetCall("score", "states, wanted, real=, smoothing=", "CrossEntropy"),
    NetCall("decode", "target, memory, source_keys=, keys=, cache=", "logits (b, m, vocab)"),
)
TEACHER_FORCING = Feeding()


class Translate(Task):
    def __init__(
        self,
        net: nn.Module,
        text: Text | None,
        smoothing: float,
        feeding: Feeding = TEACHER_FORCING,
        load: float = LOAD,
    ) -> None:
        self.parts = {"net": net}
        self.net: Any = net  # an encoder-decoder: encode, read, decode, logits, score
        self.text, self.smoothing, self.feeding, self.load = text, smoothing, feeding, load
        self.indivisible = ("load",) if switch_layers(net) else ()

    def counts(self, batch: Pairs) -> Mapping[str, float]:
        return {"tokens": float(batch.keys.sum())}

    def losses(self, batch: Pairs, step: int) -> Iterator[Loss]:
        states = self.states(batch, self.feeding.at(step))
        more = load_terms(states, batch.keys.sum(), self.load)
        yield Loss("net", {"loss": Term(self.score(states, batch, self.smoothing).sum, "tokens"), **more})

    def states(self, batch: Pairs, share: float = 1.0) -> Any:
        """What the decoder makes of each place, given a share of the right words and else its own."""
        memory = self.net.encode(batch.source, batch.source_keys)
        given = batch.given if share >= 1 else self.heard(batch, memory, share)
        return self.net.read(given, memory, source_keys=batch.source_keys, keys=batch.keys)

    @torch.no_grad()
    def heard(self, batch: Pairs, memory: Any, share: float) -> Tensor:
        """The words that it is given, found one place after the other; no gradient goes through a choice of words."""
        own = batch.given.shape[1]
        beyond = (0, most(own, batch.given.device) - own)
        given, keys = F.pad(batch.given, beyond), F.pad(batch.keys, beyond)
        words, cache = [given[:, :1]], Cache()
        for place in range(given.shape[1] - 1):
            real, right = keys[:, place : place + 1], given[:, place + 1 : place + 2]
            state = self.net.read(words[-1], memory, source_keys=batch.source_keys, keys=real, cache=cache)
            said = self.net.logits(state).argmax(-1)
            words.append(torch.where(torch.rand(right.shape, device=right.device) < share, right, said))
        return torch.cat(words, 1)[:, :own]

    def score(self, states: Any, batch: Pairs, smoothing: float) -> CrossEntropy:
        found: CrossEntropy = self.net.score(states, batch.wanted, real=batch.keys, smoothing=smoothing)
        return found

    def evaluate(self, batch: Pairs) -> Mapping[str, Tensor]:
        return word_sums(self.score(self.states(batch), batch, 0.0), batch.keys.sum())

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return word_metrics(sums)

    @torch.no_grad()
    def show(self, batch: Pairs) -> str:
        """Some sentences, and what the model would say next at each word of the true target."""
        if self.text is None:  # of numbers that are no words there is nothing to see
            return ""
        few = slice(0, EXAMPLES_SHOWN)
        keys = None if batch.source_keys is None else batch.source_keys[few]
        memory = self.net.encode(batch.source[few], keys)
        logits = self.net.decode(batch.given[few], memory, source_keys=keys, keys=batch.keys[few])
        guesses = logits.argmax(-1)
        lines = []
        for i in range(len(guesses)):
            real = batch.keys[i]
            lines += [
                f"source      {self.text.decode(batch.source[i].tolist()).strip()}",
                f"target      {self.text.decode(batch.wanted[i][real].tolist()).strip()}",
                f"prediction  {self.text.decode(guesses[i][real].tolist()).strip()}",
            ]
        return "\n".join(lines)


def most(places: int, device: torch.device) -> int:
    """Of all processes: where they share out the weights, none can read more often than the others."""
    if not dist.is_initialized():
        return places
    found = torch.tensor([places], device=device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)
