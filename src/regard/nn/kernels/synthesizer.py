"""Synthesizer: weights that are guessed or learned, without comparing anyone with anyone.

Synthesizer: Rethinking Self-Attention for Transformer Models (Tay et al., 2021), https://arxiv.org/abs/2005.00743
    dense    row i of the scores is W2 relu(W1 x_i + b1) + b2, guessed from x_i alone
    random   the scores are a matrix that is learned, or left as it was drawn, for every input the same
    factorised  dense: the products of a few guesses, a_i(j div w) b_i(j mod w); random: two thin matrices, R1 R2^T
    mixture  softmax(sum_m alpha_m S_m), the alphas a softmax themselves; one S may be the usual q . k ("vanilla")
Values are projected and mixed as ever, and there is a score for every pair still: it is no cheaper than a softmax, it
asks whether queries and keys are needed at all. The longest input is fixed when a model is built.

W1 is the projection to queries, so dense has no keys, and random has neither: what stands there no score reads. Rows
and columns are those of a word's position in its own sentence, without padding.

Differs from the paper: in a mixture, dense and vanilla read the same queries.

Shapes: b batch, h heads, g groups, q queries, k keys, n the longest input, e width of a head, r rank.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Kernel, Mixer, by_rows, repeat_heads
from ..config import not_positive, refuse
from ..mask import ALL, Bias, Mask, add_bias, count, masked_softmax
from ..site import Site

Word = Literal["dense", "factorised-dense", "random", "fixed", "factorised-random", "vanilla"]


@dataclass(frozen=True, eq=False)
class Seats:
    """The positions of queries and keys: a slice, or a tensor (..., q), (..., k) where rows differ."""

    rows: slice | Tensor
    columns: slice | Tensor
    keys: int  # places; no position is beyond

    @staticmethod
    def of(q: Tensor, k: Tensor, mask: Mask, length: int) -> "Seats":
        n, columns = q.shape[-2], k.shape[-2]
        if mask.keys is not None:
            return Seats(known(mask.positions(n, q.device), length), known(count(mask.keys), length), columns)
        if columns > length:
            raise too_far(columns - 1, length)
        if isinstance(mask.start, int):
            if mask.start + n > length:
                raise too_far(mask.start + n - 1, length)
            return Seats(slice(mask.start, mask.start + n), slice(0, columns), columns)
        return Seats(known(mask.places(n, q.device), length), slice(0, columns), columns)


def known(positions: Tensor, length: int) -> Tensor:
    if positions.numel() and not torch.compiler.is_compiling() and not positions.is_meta:
        last = int(positions.max())
        if last >= length:
            raise too_far(last, length)
    return positions


def too_far(last: int, length: int) -> ValueError:
    return ValueError(f"position {last} is out of range for a synthesizer with {length} positions; shorten the input")


def seated(table: Tensor, seats: slice | Tensor) -> Tensor:
    """The rows of a table for each head.  (h, n, r), (..., q) -> (..., h, q, r)"""
    return table[:, seats] if isinstance(seats, slice) else table[:, seats].movedim(0, -3)


def placed(scores: Tensor, seats: Seats) -> Tensor:
    """Of scores for every position, those of the keys.  (..., h, q, n) -> (..., h, q, k)"""
    if isinstance(seats.columns, slice):
        return scores[..., seats.columns]
    columns = seats.columns[..., None, None, :]
    return scores.take_along_dim(columns.expand(*scores.shape[:-1], columns.shape[-1]), -1)


class DenseSynthesizer(nn.Module):
    """W2 relu(q) + b2"""

    def __init__(self, heads: int, width: int, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, length))
        self.bias = nn.Parameter(torch.zeros(heads, 1, length))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, q: Tensor, k: Tensor, seats: Seats) -> Tensor:
        """(b, h, q, e) -> (b, h, q, k)"""
        return placed(F.relu(q) @ self.weight[..., : seats.keys] + self.bias[..., : seats.keys], seats)


class FactorisedDense(nn.Module):
    """Predicted scores of each segment of the keys, times predicted scores within a segment."""

    def __init__(self, heads: int, width: int, length: int) -> None:
        super().__init__()
        self.stretch = math.isqrt(length - 1) + 1  # whose square is at least the length
        self.far = DenseSynthesizer(heads, width, -(-length // self.stretch))
        self.near = DenseSynthesizer(heads, width, self.stretch)

    def forward(self, q: Tensor, k: Tensor, seats: Seats) -> Tensor:
        """(b, h, q, e) -> (b, h, q, k)"""
        stretches = -(-seats.keys // self.stretch)
        far = self.far(q, k, Seats(seats.rows, slice(0, stretches), stretches))
        near = self.near(q, k, Seats(seats.rows, slice(0, self.stretch), self.stretch))
        return placed((far[..., :, None] * near[..., None, :]).flatten(-2), seats)


class Random(nn.Module):
    """A learned score matrix for each head."""

    def __init__(self, heads: int, length: int, *, learned: bool) -> None:
        super().__init__()
        table = torch.empty(heads, length, length)
        nn.init.normal_(table)
        if learned:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table)

    def forward(self, q: Tensor, k: Tensor, seats: Seats) -> Tensor:
        """-> (h, q, k), or (b, h, q, k) where padding moves the rows"""
        return placed(seated(self.table, seats.rows), seats)


class FactorisedRandom(nn.Module):
    """R1 R2^T for each head"""

    def __init__(self, heads: int, length: int, rank: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(heads, length, rank))
        self.columns = nn.Parameter(torch.empty(heads, length, rank))
        for table in (self.rows, self.columns):
            nn.init.normal_(table, std=rank**-0.25)  # so that their product is about 1

    def forward(self, q: Tensor, k: Tensor, seats: Seats) -> Tensor:
        """-> (h, q, k), or (b, h, q, k) where padding moves the rows"""
        return seated(self.rows, seats.rows) @ seated(self.columns, seats.columns).mT


class Vanilla(nn.Module):
    """q . k / sqrt(e)"""

    def forward(self, q: Tensor, k: Tensor, seats: Seats) -> Tensor:
        """(b, h, q, e), (b, g, k, e) -> (b, h, q, k)"""
        return q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5


class Synthesizer(Kernel):
    """Softmax of the weighted sum of the scores of all parts, with learned weights."""

    def __init__(self, parts: Sequence[nn.Module], length: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.length, self.parts = length, nn.ModuleList(parts)
        self.loudness = nn.Parameter(torch.zeros(len(parts))) if len(parts) > 1 else None

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.map(q, k, mask, bias).expand(*q.shape[:-1], k.shape[-2])

    def map(self, q: Tensor, k: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        """-> (..., h, q, k), without a batch where all of it has one map"""
        seats = Seats.of(q, k, mask, self.length)
        said = [part(q, k, seats) for part in self.parts]
        if self.loudness is not None:
            said = [alpha * scores for alpha, scores in zip(self.loudness.softmax(0), said, strict=True)]
        scores = add_bias(sum(said[1:], said[0]), bias)
        return masked_softmax(scores, mask.dense(q.shape[-2], k.shape[-2], q.device), bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return by_rows(self.explicit, q, k, v, mask, bias, footprint=2)

    def explicit(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        if self.training and self.dropout.p:
            return super().explicit(q, k, v, mask, bias)
        weights, v = self.map(q, k, mask, bias), repeat_heads(v, q.shape[-3])
        if weights.ndim > 3 or v.ndim == 3:
            return weights @ v
        wide = v.flatten(0, -4).movedim(0, -2)  # one map for all: (h, k, b, f), the batch as wider values
        y = weights @ wide.reshape(*wide.shape[:-2], wide.shape[-2] * wide.shape[-1])
        return y.unflatten(-1, wide.shape[-2:]).movedim(-2, 0).reshape(*v.shape[:-3], *y.shape[:-1], v.shape[-1])


def synthesize(words: Sequence[Word], rank: int, length: int | None, site: Site) -> Mixer:
    """Build a synthesizer with these parts for a site, with the projections that they need."""
    if site.cross:
        raise ValueError(
            "a synthesizer predicts scores for the positions of one sequence, so it does not support "
            "cross-attention to a context"
        )
    if site.rotary is not None:
        raise ValueError("a synthesizer compares no queries with keys, so it does not support rotary positions")
    n = length or site.length
    if n is None:
        raise ValueError(
            "a synthesizer has scores for each position, so it needs the maximum sequence length: set `length`"
        )
    if not words:
        raise ValueError("a synthesizer needs at least one part; parts is an empty list")
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")

    def part(word: Word) -> nn.Module:
        if word == "vanilla":
            return Vanilla()
        if word == "dense":
            return DenseSynthesizer(site.heads, site.width, n)
        if word == "factorised-dense":
            return FactorisedDense(site.heads, site.width, n)
        if word == "factorised-random":
            return FactorisedRandom(site.heads, n, rank)
        return Random(site.heads, n, learned=word == "random")

    guessing, comparing = any("dense" in word for word in words), "vanilla" in words
    alike = site.value_dim in (None, site.width)
    layer = site.attention(
        Synthesizer([part(word) for word in words], n, site.dropout),
        shared="kv" if guessing and not comparing and alike else "",
    )
    if not comparing and layer.v is not None:  # nobody reads the keys but to count them
        layer.k = nn.Identity()  # type: ignore[assignment]
    if not comparing and not guessing:
        layer.q = nn.Identity()  # type: ignore[assignment]
    return layer


@dataclass(frozen=True, kw_only=True)
class DenseSettings:
    form: Literal["full", "factorised"] = "full"
    length: int | None = None  # of the longest input; as the model says unless given

    def __post_init__(self) -> None:
        refuse(not_positive(self, "length"))


@dataclass(frozen=True, kw_only=True)
class RandomSettings:
    form: Literal["full", "fixed", "factorised"] = "full"  # fixed: as it was drawn
    rank: int = 8  # of the factorised form
    length: int | None = None  # of the longest input; as the model says unless given

    def __post_init__(self) -> None:
        refuse(not_positive(self, "length"))


@dataclass(frozen=True, kw_only=True)
class MixtureSettings:
    parts: tuple[Word, ...] = ("random", "vanilla")
    rank: int = 8  # of the factorised random part
    length: int | None = None  # of the longest input; as the model says unless given

    def __post_init__(self) -> None:
        refuse(not_positive(self, "length"))


def dense(settings: DenseSettings, site: Site) -> Mixer:
    word = {"full": "dense", "factorised": "factorised-dense"}[settings.form]
    return synthesize([cast(Word, word)], 1, settings.length, site)


def random(settings: RandomSettings, site: Site) -> Mixer:
    word = {"full": "random", "fixed": "fixed", "factorised": "factorised-random"}[settings.form]
    return synthesize([cast(Word, word)], settings.rank, settings.length, site)


def mixture(settings: MixtureSettings, site: Site) -> Mixer:
    return synthesize(settings.parts, settings.rank, settings.length, site)
