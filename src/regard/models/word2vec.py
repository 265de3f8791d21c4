"""Word vectors from the company that words keep.

Efficient Estimation of Word Representations in Vector Space (Mikolov et al., 2013), https://arxiv.org/abs/1301.3781
Distributed Representations of Words and Phrases (Mikolov et al., 2013), https://arxiv.org/abs/1310.4546
Skip-gram with negative sampling: of each word c and each word o near it, and of k words n drawn by chance
    log sigma(u_o . v_c) + sum_n log sigma(-u_n . v_c)
is made large. Words that stand in the same places get like vectors.

Shapes: b pairs, k negatives, v vocabulary, d width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.nn.config import not_above_zero, not_at_least, not_positive, refuse

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int
    dim: int = 100
    window: int = 5  # words on either side at most; each word draws its own
    negatives: int = 5
    often: float = 1e-4  # a word of frequency f is left out with probability 1 - sqrt(often / f)
    epochs: int = 3
    batch: int = 8192  # pairs
    rate: float = 0.025
    seed: int = 0

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "dim", "window", "negatives", "epochs", "batch"),
            not_above_zero(self, "often", "rate"),
            not_at_least(0, self, "seed"),
        )


class SkipGram(nn.Module):
    """Skip-gram with two tables: word and context vectors. The context vectors start at zero, as in the papers."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.words, self.contexts = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim)
        nn.init.uniform_(self.words.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.contexts.weight)

    def forward(self, words: Tensor, contexts: Tensor, negatives: Tensor) -> Tensor:
        """(b,), (b,), (b, k) -> the loss, summed. A negative that is the context itself does not count."""
        v = self.words(words)
        near = (v * self.contexts(contexts)).sum(-1)
        far = torch.einsum("bd,bkd->bk", v, self.contexts(negatives))
        counts = (negatives != contexts[:, None]).to(far.dtype)
        return -(F.logsigmoid(near).sum() + (F.logsigmoid(-far) * counts).sum())


def pairs(rows: Sequence[Sequence[int]], config: Config, chance: np.random.Generator) -> tuple[Ids, Ids]:
    """All pairs of a word and a neighbour, once through all rows; frequent words are subsampled first."""
    ids = np.fromiter((i for row in rows for i in row), np.int64)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    shares = np.bincount(ids, minlength=config.vocab) / max(len(ids), 1)
    keep = np.sqrt(config.often / np.maximum(shares, 1e-12))[ids] > chance.random(len(ids))
    ids, owner = ids[keep], owner[keep]
    reach = chance.integers(1, config.window + 1, len(ids))
    words, contexts = [], []
    for off in range(1, config.window + 1):
        together = owner[off:] == owner[:-off]
        for near, far in ((slice(None, -off), slice(off, None)), (slice(off, None), slice(None, -off))):
            taken = together & (reach[near] >= off)
            words.append(ids[near][taken])
            contexts.append(ids[far][taken])
    return np.concatenate(words), np.concatenate(contexts)


def batches(rows: Sequence[Sequence[int]], config: Config) -> Iterator[tuple[Tensor, Tensor, Tensor, float]]:
    """Words, contexts, negatives, and the fraction of the work done so far."""
    chance = np.random.default_rng(config.seed)
    counts = np.bincount(np.fromiter((i for row in rows for i in row), np.int64), minlength=config.vocab)
    often = np.cumsum(counts**0.75)
    for epoch in range(config.epochs):
        words, contexts = pairs(rows, config, chance)
        order = chance.permutation(len(words))
        for start in range(0, len(order), config.batch):
            some = order[start : start + config.batch]
            drawn = chance.random((len(some), config.negatives)) * often[-1]
            negatives = np.searchsorted(often, drawn, side="right")
            done = (epoch + start / len(order)) / config.epochs
            yield *map(torch.from_numpy, (words[some], contexts[some], negatives)), done  # type: ignore[misc]


def word_vectors(rows: Sequence[Sequence[int]], config: Config) -> Tensor:
    """Train word vectors (v, d) on rows of ids; the same seed gives the same vectors."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        net = SkipGram(config.vocab, config.dim)
    optimizer = torch.optim.Adagrad(net.parameters(), lr=4 * config.rate)
    for words, contexts, negatives, done in batches(rows, config):
        optimizer.param_groups[0]["lr"] = 4 * config.rate * max(1 - done, 1e-2)
        optimizer.zero_grad()
        net(words, contexts, negatives).backward()
        optimizer.step()
    return net.words.weight.detach()
