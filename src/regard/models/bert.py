"""BERT.

BERT: Pre-training of Deep Bidirectional Transformers (Devlin et al., 2019), https://arxiv.org/abs/1810.04805
An encoder alone: every token looks both ways, so that a hidden word can be guessed from all that surrounds it.

Shapes: b batch, n tokens, d width, v vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, MLP, activation
from regard.nn.mask import Mask, fitted
from regard.nn.mechanisms import Choice, Site, build_mixer, layered, unknown_choices
from regard.nn.positions import Learned
from regard.nn.residual import Branch, PostNorm
from regard.nn.start import deviation


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 30522
    length: int = 512
    segments: int = 2
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    eps: float = 1e-12
    activation: str = "gelu"
    pooler: bool = True  # a tanh layer on the first token
    head: Literal["none", "words", "pretraining"] = "none"  # guess hidden words; and whether B follows A
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        blind = self.head == "pretraining" and self.pooler is False
        refuse(
            not_positive(self, "vocab", "length", "segments", "dim", "depth", "heads", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            ["head = 'pretraining' reads the pooler, but pooler = false"] if blind else [],
        )


PRESETS = {
    "bert-tiny": Config(dim=128, depth=2, heads=2, hidden=512),
    "bert-mini": Config(dim=256, depth=4, heads=4, hidden=1024),
    "bert-base": Config(),
    "bert-large": Config(dim=1024, depth=24, heads=16, hidden=4096),
}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


@dataclass(frozen=True, eq=False)
class Output:
    states: Tensor  # (b, n, d)
    pooled: Tensor | None  # (b, d)
    words: Tensor | None  # (b, n, v)
    follows: Tensor | None  # (b, 2)


class Words(nn.Module):
    """The masked-word head: one more layer, then the embedding's own matrix with a bias for each word."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.dim, config.dim)
        self.act = activation(config.activation)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, states: Tensor, embedding: Tensor) -> Tensor:
        """(b, n, d), (v, d) -> (b, n, v)"""
        return F.linear(self.norm(self.act(self.dense(states))), embedding, self.bias)


class BERT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.positions = Learned(config.length, config.dim)
        self.segments = Lookup(config.segments, config.dim)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(self.block(choice) for choice in layered(config.attention, config.depth))
        self.pooler = nn.Linear(config.dim, config.dim) if config.pooler else None
        self.words = None if config.head == "none" else Words(config)
        self.follows = nn.Linear(config.dim, 2) if config.head == "pretraining" else None
        self.reset()

    def block(self, choice: Choice) -> Block:
        config = self.config
        site = Site(dim=config.dim, heads=config.heads, length=config.length, dropout=config.attention_dropout)
        return Block(
            build_mixer(choice, site),
            MLP(config.dim, config.hidden, activation(config.activation)),
            lambda: PostNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
        )

    def reset(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=deviation(self.config.dim))

    def forward(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Output:
        """(b, n) -> states (b, n, d) and what the heads make of them; keys is False at padding"""
        mask = Mask(keys=fitted(keys, ids))
        segment = self.segments(torch.zeros_like(ids) if segments is None else segments)
        position = self.positions(mask.positions(ids.shape[1], ids.device))
        x = self.dropout(self.norm(self.embed(ids) + segment + position))
        for block in self.blocks:
            x = block(x, mask=mask)
        pooled = None if self.pooler is None else torch.tanh(self.pooler(first(x, keys)))
        return Output(
            states=x,
            pooled=pooled,
            words=None if self.words is None else self.words(x, self.embed.weight),
            follows=None if self.follows is None or pooled is None else self.follows(pooled),
        )

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


def first(x: Tensor, keys: Tensor | None) -> Tensor:
    """The first real token of each row, whichever side the padding is on.  (b, n, d) -> (b, d)"""
    if not len(x):
        return x.sum(1)  # no rows; there may be no tokens either
    if not x.shape[1]:
        raise ValueError(f"the pooler reads a row's first token: got {len(x)} rows of 0 tokens, expected at least 1")
    return x[:, 0] if keys is None else x[torch.arange(len(x), device=x.device), keys.int().argmax(1)]


def mean(x: Tensor, keys: Tensor | None) -> Tensor:
    """The mean of the real tokens: a sentence's embedding.  (b, n, d) -> (b, d)"""
    if keys is None:
        return x.mean(1) if x.shape[1] else x.sum(1)  # of no tokens it is zero, as for a row of padding
    real = keys[..., None].to(x.dtype)
    return x.masked_fill(~keys[..., None], 0.0).sum(1) / real.sum(1).clamp(min=1)
