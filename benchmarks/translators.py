"""The same small translator twice: around PyTorch's nn.Transformer in a plain loop, and ours. Both give a mean loss."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.order import Order
from regard.modalities.text.processor import pad_ids
from regard.models.transformer import Config, Transformer

SMOOTHING = 0.1


@dataclass(frozen=True, eq=False)
class Words:
    """A batch; where sentences differ in length, the keys are False at padding."""

    source: Tensor
    given: Tensor
    wanted: Tensor
    source_keys: Tensor | None = None
    keys: Tensor | None = None

    @property
    def real(self) -> int:
        """Words to be foretold."""
        return self.wanted.numel() if self.keys is None else int(self.keys.sum())


def even(sentences: int, words: int, vocab: int) -> list[Words]:
    """One batch of sentences that are all as long."""
    source, target = torch.randint(vocab, (sentences, words)), torch.randint(vocab, (sentences, words + 1))
    return [Words(source, target[:, :-1], target[:, 1:])]


def ragged(batches: int, sentences: int, vocab: int, *, by_length: bool) -> list[Words]:
    """Sentences as long as captions of photographs, in tokens about 9 to 25; in random batches, or by their lengths.

    Of the batches by length, as many are taken as there are random ones, evenly from the shortest to the longest.
    """
    chance = np.random.default_rng(0)
    count = 40 * sentences
    source = np.clip(np.exp(chance.normal(2.7, 0.3, count)), 5, 45).astype(int)
    target = np.clip(source * np.exp(chance.normal(0.05, 0.15, count)), 5, 50).astype(int)
    if by_length:
        budget = sentences * int(source.mean() + target.mean())
        order = Order(count, np.stack((source, target), 1), budget=budget, shuffle=False)
        picked = np.linspace(0, len(order) - 1, batches).astype(int)
        return [ragged_batch(source[rows], target[rows], vocab) for rows in (order.rows(int(i)) for i in picked)]
    drawn = chance.permutation(count)[: batches * sentences].reshape(batches, sentences)
    return [ragged_batch(source[rows], target[rows], vocab) for rows in drawn]


def ragged_batch(sources: Sequence[int], targets: Sequence[int], vocab: int) -> Words:
    source, given, wanted = (
        pad_ids([torch.randint(vocab, (int(n),)).tolist() for n in lengths]) for lengths in (sources, targets, targets)
    )
    return Words(source.ids, given.ids, wanted.ids, source.keys, given.keys)


class Plain(nn.Module):
    """nn.Transformer and what it lacks: embedding, sinusoids, output, with one table for all words as in the paper.

    The paper has no norm after the last layer, so these two are taken away.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        dim, heads, depth, hidden, p = config.dim, config.heads, config.depth, config.hidden, config.dropout
        self.embed, self.dropout, self.scale = nn.Embedding(config.vocab, dim), nn.Dropout(p), math.sqrt(dim)
        self.core = nn.Transformer(dim, heads, depth, depth, hidden, p, batch_first=True)
        self.core.encoder.norm = self.core.decoder.norm = None
        angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, dim, 2).double() * (-math.log(1e4) / dim))
        table = torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()
        self.register_buffer("places", table, persistent=False)
        nn.init.normal_(self.embed.weight, std=dim**-0.5)

    def tokens(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embed(ids) * self.scale + self.places[: ids.shape[1]])

    def forward(self, words: Words) -> Tensor:
        """(b, m), (b, n) -> (b, n, v)"""
        future = nn.Transformer.generate_square_subsequent_mask(words.given.shape[1]).to(self.embed.weight.dtype)
        unread = None if words.source_keys is None else ~words.source_keys
        unwritten = None if words.keys is None else ~words.keys
        if unwritten is not None:  # of one kind with the other mask, or it warns
            unwritten = torch.zeros_like(unwritten, dtype=future.dtype).masked_fill(unwritten, -torch.inf)
        y = self.core(
            self.tokens(words.source),
            self.tokens(words.given),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=unread,
            memory_key_padding_mask=unread,
            tgt_key_padding_mask=unwritten,
        )
        return F.linear(y, self.embed.weight)


def plain_loss(net: Plain, words: Words) -> Tensor:
    wanted = words.wanted if words.keys is None else words.wanted.masked_fill(~words.keys, -100)
    return F.cross_entropy(net(words).flatten(0, 1), wanted.flatten(), label_smoothing=SMOOTHING)


def our_loss(net: Transformer, words: Words) -> Tensor:
    memory = net.encode(words.source, words.source_keys)
    states = net.read(words.given, memory, source_keys=words.source_keys, keys=words.keys)
    return net.score(states, words.wanted, real=words.keys, smoothing=SMOOTHING).sum / words.real


def plain_step(config: Config, batches: Sequence[Words]) -> Callable[[], int]:
    with warnings.catch_warnings(action="ignore"):  # it says which shortcuts it will not take
        net = Plain(config)
    return steps(lambda words: plain_loss(net, words), torch.optim.Adam(net.parameters(), 1e-4), batches)


def our_step(config: Config, batches: Sequence[Words]) -> Callable[[], int]:
    net = Transformer(config)
    return steps(lambda words: our_loss(net, words), torch.optim.Adam(net.parameters(), 1e-4, fused=True), batches)


def steps(
    loss: Callable[[Words], Tensor], optimizer: torch.optim.Optimizer, batches: Sequence[Words]
) -> Callable[[], int]:
    """One update with the next batch -> how many words it foretold."""
    queue = cycle(batches)

    def go() -> int:
        words = next(queue)
        step(lambda: loss(words), optimizer)
        return words.real

    return go


def step(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
