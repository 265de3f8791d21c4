"""The same small translator twice: around PyTorch's nn.Transformer in a plain loop, and ours. Both give a mean loss."""

import math
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.transformer import Config, Transformer

SMOOTHING = 0.1


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

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        """(b, m), (b, n) -> (b, n, v)"""
        future = nn.Transformer.generate_square_subsequent_mask(given.shape[1], dtype=self.embed.weight.dtype)
        y = self.core(self.tokens(source), self.tokens(given), tgt_mask=future, tgt_is_causal=True)
        return F.linear(y, self.embed.weight)


def plain_loss(net: Plain, source: Tensor, given: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(net(source, given).flatten(0, 1), wanted.flatten(), label_smoothing=SMOOTHING)


def our_loss(net: Transformer, source: Tensor, given: Tensor, wanted: Tensor) -> Tensor:
    states = net.read(given, net.encode(source))
    return net.score(states, wanted, smoothing=SMOOTHING).sum / wanted.numel()


def plain_step(config: Config, words: tuple[Tensor, Tensor, Tensor]) -> Callable[[], None]:
    with warnings.catch_warnings(action="ignore"):  # it says which shortcuts it will not take
        net = Plain(config)
    optimizer = torch.optim.Adam(net.parameters(), 1e-4)
    return lambda: step(lambda: plain_loss(net, *words), optimizer)


def our_step(config: Config, words: tuple[Tensor, Tensor, Tensor]) -> Callable[[], None]:
    net = Transformer(config)
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, fused=True)
    return lambda: step(lambda: our_loss(net, *words), optimizer)


def step(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
