"""Reformer.

Reformer: The Efficient Transformer (Kitaev, Kaiser and Levskaya, 2020)
https://arxiv.org/abs/2001.04451
A language model for long texts: attention by hashing finds the few keys that matter, layers between them look at their
neighbours, positions are a grid of rows and columns, and reversible layers keep no activations, so that memory does not
grow with depth.

Two streams start as the same embedding; the words are read off both at the end.

Differs from the paper: with ``attention = "lsh"`` a query of a causal model sees a band of earlier keys of its bucket,
which decodes with a cache; the paper's chunks, as published models have them, are ``form = "chunks"``, and cannot. The
hashes are drawn once, not for every batch.

Shapes: b batch, n tokens, d width, v vocabulary.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family
from regard.nn.axis import Axis
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_above_zero, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.initialization import init_deviation
from regard.nn.kernels.lsh import LSH
from regard.nn.loss import CrossEntropy, cross_entropy
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, pick_mechanism, unknown_choices
from regard.nn.positions import Axial, Learned
from regard.nn.residual import Branch
from regard.nn.reversible import ReversibleBlock, Streams, run_reversible
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 320
    length: int = 4096
    dim: int = 256
    depth: int = 6
    heads: int = 4
    head_dim: int = 64  # heads of this width need not add up to dim
    hidden: int = 512
    dropout: float = 0.05
    attention_dropout: float = 0.05
    hashed_dropout: float = 0.0  # of layers that hash
    eps: float = 1e-12
    activation: str = "relu"
    grid: tuple[int, ...] | None = None  # rows and columns of the positions; one vector for each unless given
    row_dim: int | None = None  # features that tell the row; a quarter unless given
    causal: bool = True
    head: Literal["words", "none"] = "words"
    output_bias: bool = True  # of the output matrix
    attention: Choice = ("chunked", "lsh")

    def __post_init__(self) -> None:
        refuse(*self.checks())
        if self.row_dim is not None and self.dim is not None and self.row_dim * 4 == self.dim:  # one way to say it
            object.__setattr__(self, "row_dim", None)

    def checks(self) -> list[list[str]]:
        grid, wrong = self.grid, []
        if grid is not None and (len(grid) != 2 or min(grid) < 1):
            wrong.append(f"grid = {list(grid)} must be two sizes, rows and columns")
        elif grid is not None and self.length is not None and prod(grid) < self.length:
            wrong.append(f"grid = {list(grid)} has fewer positions than length = {self.length}")
        if self.row_dim is not None and self.dim is not None and not 0 < self.row_dim < self.dim:
            wrong.append(f"row_dim = {self.row_dim} must be less than dim = {self.dim}")
        return [
            not_positive(self, "vocab", "length", "dim", "depth", "heads", "head_dim", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "hashed_dropout"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            wrong,
        ]


def hashing(chunk: int, rounds: int, buckets: int | list[int]) -> dict[str, Any]:
    """The attention of published models."""
    return {"kind": "lsh", "form": "chunks", "once": False, "chunk": chunk, "rounds": rounds, "buckets": buckets}


NEAR = {"kind": "chunked", "chunk": 128}
PRESETS = {
    "reformer-tiny": Config(vocab=256, length=1024, dim=128, depth=4, heads=4, head_dim=32, grid=(32, 32)),
    "reformer-crime-and-punishment": Config(
        length=524288, heads=2, grid=(512, 1024), attention=("chunked", hashing(64, 1, [64, 128]))
    ),
    "reformer-enwik8": Config(
        vocab=258,
        length=65536,
        dim=1024,
        depth=12,
        heads=8,
        head_dim=128,
        hidden=4096,
        dropout=0.2,
        attention_dropout=0.2,
        hashed_dropout=0.1,
        grid=(128, 512),
        attention=(NEAR, NEAR, hashing(256, 4, 512), NEAR),
    ),
}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


class Reformer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        row_dim = config.row_dim or max(config.dim // 4, 1)
        self.positions = (
            Learned(config.length, config.dim)
            if config.grid is None
            else Axial(config.grid[0], config.grid[1], row_dim, config.dim)
        )
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(self.block(choice) for choice in layer_choices(config.attention, config.depth))
        self.norm = nn.LayerNorm(2 * config.dim, config.eps)
        self.head = nn.Linear(2 * config.dim, config.vocab, config.output_bias) if config.head == "words" else None
        self.reset()

    def block(self, choice: Choice) -> ReversibleBlock:
        config = self.config
        hashed = pick_mechanism(choice).kind == "lsh"
        site = Site(
            dim=config.dim,
            heads=config.heads,
            length=config.length,
            causal=config.causal,
            dropout=config.hashed_dropout if hashed else config.attention_dropout,
            head_dim=config.head_dim,
            biases="",
        )
        return ReversibleBlock(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, activation(config.activation), dropout=config.dropout),
            lambda: nn.LayerNorm(config.dim, config.eps),
            lambda: Branch(config.dim, dropout=config.dropout),
            config.hidden,
        )

    @property
    def stepwise(self) -> bool:
        """Whether the model decodes with a cache: attention in chunks does not."""
        return not any(isinstance(part, LSH) and part.form == "chunks" for part in self.modules())

    def reset(self) -> None:
        std = init_deviation(self.config.dim)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Any:
        """(b, n) -> (b, n, v), or (b, n, 2d) without a head; keys is False at padding; with a cache, ids holds only
        the new tokens"""
        states = self.read(ids, keys=keys, cache=cache)
        return states if self.head is None else self.logits(states)

    def read(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Any:
        """(b, n) -> (b, n, 2d): both streams, before the output matrix"""
        if cache is not None and not self.config.causal:
            raise ValueError("a bidirectional model reads the full sequence, so it does not support a cache")
        mask = decoder_mask(ids, keys, cache) if self.config.causal else Mask(keys=fitted_keys(keys, ids))
        x = self.dropout(self.embed(ids) + self.positions(mask.positions(ids.shape[1], ids.device)))
        y = run_reversible(list(self.blocks), Streams(x, x), mask=mask, cache=cache)
        return self.dropout(self.norm(torch.cat((y.first, y.second), -1)))

    def words(self) -> tuple[Tensor, Tensor | None]:
        if self.head is None:
            raise ValueError("this model has no language-model head; build it with head = 'words'")
        return self.head.weight, self.head.bias

    def logits(self, states: Any) -> Tensor:
        """(b, n, 2d) -> (b, n, v)"""
        return F.linear(states, *self.words())

    def score(self, states: Any, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0) -> CrossEntropy:
        """hidden states (b, n, 2d) and targets (b, n): the cross-entropy of the targets, without forming all logits"""
        weight, bias = self.words()
        return cross_entropy(states, weight, wanted, bias=bias, real=real, smoothing=smoothing)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


def verbs(config: Config, task: str | None) -> tuple[str, ...]:
    return ("generate",) if config.causal and config.head == "words" else ()


FAMILY = Family(
    config=Config,
    net=Reformer,
    presets=PRESETS,
    axes=AXES,
    paper="Kitaev, Kaiser and Levskaya 2020, Reformer: The Efficient Transformer",
    link="https://arxiv.org/abs/2001.04451",
    takes=("text",),
    tasks=("language",),
    verbs=verbs,
    example=lambda: Config(vocab=13, length=12, dim=16, depth=2, head_dim=4, hidden=24),
    offered={"reformer-tiny": 789_445},
)
