"""Attention by locality-sensitive hashing: each query looks at keys that fell into the same bucket as itself.

Reformer: The Efficient Transformer (Kitaev, Kaiser and Levskaya, 2020), https://arxiv.org/abs/2001.04451, section 2
    o_i = sum over j in P_i of exp(q_i . k_j - z(i, P_i)) v_j, P_i = {j: h(q_i) = h(k_j)}
Vectors that point the same way are likely to get the same hash, so those keys are found that a softmax would look at.
Queries and keys are one projection, so a query has the bucket of the key at its own place. Keys have length 1. No query
looks at itself, but if it has nobody else. Several rounds with other hashes find what one has missed.

Two hashes. "angular" (Andoni et al., 2015), https://arxiv.org/abs/1509.02897: h(x) = argmax [xR; -xR], R random, which
is made of two when there are many buckets. "planes": one bit for the side of each of several random planes, two vectors
agree in a bit with probability 1 - angle / pi.

Two forms. "chunks", the paper's: sorted by bucket and position, the keys are cut into chunks, and each chunk looks at
itself and the one before it, so buckets of any size cost the same. Where the chunks are cut hangs on the whole text: a
causal mask keeps every later key from sight, but a later token can still move an earlier one into another chunk. So
nothing can be decoded step by step, and a cache is refused. "band": the last c earlier keys of the same bucket, which
hangs on the past alone, and decodes. Unless one is picked, a causal mask gets the band and any other the chunks.

Differs from the paper: P_i is the union of all rounds, in which each key counts once, not once for every round that met
it; ``once=False`` is as the authors' code and transformers have it. The hashes are drawn once, by a seed, which all
layers share unless each is given its own; with ``redraw`` others are drawn from time to time in training, as the paper
does in each call. Padding stands behind all buckets and takes no place in a chunk.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from .. import attention
from ..attention import Kernel, Mixer, by_rows, repeat_heads
from ..cache import Slot
from ..config import not_at_least, not_positive, refuse, show_value
from ..hash_rounds import FAR, BucketBand, HashPlan, Near, Ring, as_given, in_rounds
from ..mask import ALL, Bias, Mask, add_head_axis, masked_softmax
from ..recomputation import decide_once
from ..site import Site

Hash = Literal["angular", "planes"]
Form = Literal["chunks", "band"]
UNKNOWN = 32  # buckets, where nobody said how long a text may be
LARGEST_SINGLE_HASH = 64  # buckets, from which on a hash is made of two
MOST = 1 << 16  # buckets: beyond, even a text of millions has none for two
APART = 2654435761  # seeds of one draw and the next; of a seed only 32 bits count
NAME = "LSH attention"


@dataclass(frozen=True, kw_only=True)
class Settings:
    chunk: int = 64  # keys of a chunk, or of a band
    rounds: int = 4
    buckets: int | tuple[int, ...] | None = None  # two for each chunk of the longest text, unless given
    hashed: Hash = "angular"
    form: Form | None = None  # by the mask, unless given
    alike: bool = False  # whether chunks, too, look at keys of the same bucket alone
    once: bool = True  # a key counts once, however many rounds have met it
    seed: int = 0
    redraw: int = 0  # calls in training after which other hashes are drawn; 0: never

    def __post_init__(self) -> None:
        several = self.buckets if isinstance(self.buckets, list | tuple) else (self.buckets or 0,)
        wrong = self.buckets is not None and (not several or not 1 <= math.prod(several) <= MOST)
        refuse(
            not_positive(self, "chunk", "rounds"),
            not_at_least(0, self, "redraw"),
            [f"buckets = {show_value(self.buckets)} must be from 1 to {MOST}"] if wrong else [],
        )


def build(settings: Settings, site: Site) -> Mixer:
    if site.cross:
        raise ValueError(
            f"{NAME} has one projection for queries and keys, so it does not support cross-attention to a context"
        )
    if site.biased:
        raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")
    if settings.form == "band" and not site.causal:
        raise ValueError("LSH attention with a band sees earlier keys only, so it must be causal")
    factors = sizes(settings, site.length)
    kernel = LSH(
        settings.chunk,
        settings.rounds,
        factors,
        hashed=settings.hashed,
        form=settings.form,
        alike=settings.alike,
        once=settings.once,
        seed=settings.seed,
        redraw=settings.redraw,
        dropout=site.dropout,
    )
    return site.attention(kernel, shared="qk")


def sizes(settings: Settings, length: int | None) -> tuple[int, ...]:
    """The number of buckets as powers of two; a large number is the product of two hashes."""
    if isinstance(settings.buckets, tuple):
        return settings.buckets
    if settings.buckets is not None:
        return (settings.buckets,)
    if length is None:
        count = UNKNOWN
    else:
        count = 1 if length <= settings.chunk else 1 << (2 * length // settings.chunk).bit_length() - 1
    half = 1 << (count.bit_length() - 1) // 2
    return (half, count // half) if count > LARGEST_SINGLE_HASH and settings.hashed == "angular" else (count,)


class LSH(Kernel):
    def __init__(
        self,
        chunk: int,
        rounds: int,
        buckets: tuple[int, ...],
        *,
        hashed: Hash = "angular",
        form: Form | None = None,
        alike: bool = False,
        once: bool = True,
        seed: int = 0,
        redraw: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dropout)
        for what, size in (("a chunk", chunk), ("the number of rounds", rounds)):
            if size < 1:
                raise ValueError(f"{what} must be at least 1, got {size}")
        self.buckets = math.prod(buckets)
        if hashed == "planes" and self.buckets & (self.buckets - 1):
            raise ValueError(f"with hyperplanes the number of buckets must be a power of 2, got {self.buckets}")
        if self.buckets != 1 and any(size < 2 or size % 2 for size in buckets):
            raise ValueError(f"with angular hashing the number of buckets must be even, got {buckets}")
        self.chunk, self.rounds, self.factors = chunk, rounds, buckets
        self.hashed, self.form, self.alike, self.once, self.seed = hashed, form, alike, once, seed
        self.redraw = redraw
        self.calls: Tensor | None
        self.register_buffer("calls", torch.zeros((), dtype=torch.long) if redraw else None)  # in training

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        return self.looked(q, k, mask, self.codes(repeat_heads(k, q.shape[-3])))

    def looked(self, q: Tensor, k: Tensor, mask: Mask, codes: Tensor) -> Tensor:
        """(b, h, q, e), (b, g, k, e), (b, h, r, k) -> (b, h, q, k)"""
        k = repeat_heads(k, q.shape[-3])
        lead, rows, columns, plan = k.shape[:-2], q.shape[-2], k.shape[-2], self.plan(codes, mask)
        places = mask.places(rows, q.device)
        items = over(places.clamp(max=columns - 1), lead).flatten(0, -2).unsqueeze(1)
        every = torch.arange(columns, device=q.device)
        seen = every.expand(len(items), 1, columns)
        each = [plan.near.times(r, slice(None), items, seen) for r in range(self.rounds)]
        times = torch.stack(each).sum(0).view(*lead, rows, columns)
        allowed, own = mask.dense(rows, columns, q.device), add_head_axis(places[..., :, None] == every)
        allowed = own.new_ones(1) if allowed is None else allowed
        others, scores = (times > 0) & allowed & ~own, q @ unit_keys(k).mT
        weights = masked_softmax(scores if self.once else scores + times.clamp(min=1).to(q.dtype).log(), others)
        return weights + (own & allowed & ~others.any(-1, keepdim=True)).to(weights.dtype)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        if q.shape[-2] != k.shape[-2] or not isinstance(mask.start, int) or mask.start or not k.numel():
            return by_rows(self.explicit, q, k, v, mask, None)
        k, v, lead = repeat_heads(k, q.shape[-3]), repeat_heads(v, q.shape[-3]), q.shape[:-2]
        plan = self.plan(self.codes(k), mask)
        q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, unit_keys(k), v))
        return in_rounds(q, k, v, plan, self.dropout.p if self.training else 0.0).view(*lead, -1, v.shape[-1])

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        if self.form == "chunks" or not mask.causal:
            raise ValueError(
                "LSH attention with chunks needs the full sequence, so it cannot decode with a cache; use the band"
            )
        k, v = slot.append("k", k), slot.append("v", v)
        known = slot["codes"].shape[-2] if "codes" in slot else 0
        codes = slot.append("codes", self.hash(repeat_heads(k[..., known:, :], q.shape[-3]), self.draw()).mT).mT
        if q.shape[-2] == k.shape[-2]:  # there is no past
            return self(q, k, v, mask)
        weights = self.dropout(self.looked(q, k, mask, codes))
        return weights @ repeat_heads(v, q.shape[-3])

    def refuse(self, mask: Mask, bias: Bias | None) -> None:
        mask.structured(NAME)
        if bias is not None:
            raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")
        if self.form == "band" and not mask.causal:
            raise ValueError("LSH attention with a band sees earlier keys only, so it must be causal")

    def codes(self, k: Tensor) -> Tensor:
        """The bucket of each key in each round: (b, h, k, e) -> (b, h, r, k). Buckets are kept when activations are
        recomputed, as rounding differences could move a key to another bucket."""
        return decide_once(lambda: self.hash(k, self.draw()))

    def draw(self) -> int:
        """Count the redraws of the hashes; the count is saved with the model."""
        if self.calls is None or self.calls.is_meta:
            return 0
        if self.training:
            self.calls += 1
        return max(int(self.calls) - 1, 0) // self.redraw

    @torch.no_grad()
    def hash(self, k: Tensor, draw: int = 0) -> Tensor:
        lead, n = k.shape[:-2], k.shape[-2]
        if self.buckets == 1:
            return torch.zeros(*lead, self.rounds, n, dtype=torch.int32, device=k.device)
        bits = self.buckets.bit_length() - 1
        columns = bits if self.hashed == "planes" else sum(self.factors) // 2
        turns = random_rotations(self.seed + draw * APART, k.shape[-3], k.shape[-1], self.rounds, columns)
        precise = torch.promote_types(k.dtype, torch.float32)
        k, turns = k.detach().to(precise), turns.to(k.device, precise)
        height = max(attention.DENSE // (max(math.prod(lead), 1) * columns), 1)
        with as_given(k):
            found = [
                torch.cat([self.bucket(part @ turns[:, :, r]) for part in k.split(height, -2)], -1)
                for r in range(self.rounds)
            ]
        return torch.stack(found, -2)

    def bucket(self, turned: Tensor) -> Tensor:
        """(b, h, n, columns) -> (b, h, n)"""
        if self.hashed == "planes":
            powers = 1 << torch.arange(turned.shape[-1], device=turned.device, dtype=torch.int32)
            return ((turned > 0) * powers).sum(-1, dtype=torch.int32)
        code = torch.zeros(turned.shape[:-1], dtype=torch.int32, device=turned.device)
        before = 1
        for size, part in zip(self.factors, turned.split([size // 2 for size in self.factors], -1), strict=True):
            best = part.abs().argmax(-1, keepdim=True)  # the largest of [x; -x]
            side = (part.gather(-1, best) < 0).int()
            code += before * (best.int() + side * (size // 2)).squeeze(-1)
            before *= size
        return code

    @torch.no_grad()
    def plan(self, codes: Tensor, mask: Mask) -> HashPlan:
        """(b, h, r, k) -> where each stands in each round"""
        lead, n = codes.shape[:-2], codes.shape[-1]
        real = None if mask.keys is None else over(mask.keys, lead).unsqueeze(-2)
        codes = codes if real is None else codes.masked_fill(~real, self.buckets)
        codes = codes.flatten(0, -3).transpose(0, 1)  # (r, g, k)
        count = torch.full(codes.shape[1:2], n, device=codes.device)
        count = (count if real is None else real.sum(-1).flatten()).int().unsqueeze(-1)
        order = codes.argsort(dim=-1, stable=True)
        rank = torch.empty_like(order).scatter_(-1, order, torch.arange(n, device=order.device).expand_as(order))
        order, rank, chunk = order.int(), rank.int(), max(min(self.chunk, n), 1)
        return HashPlan(order, rank, count, chunk, self.near(codes, order, rank, count, chunk, mask.causal))

    def near(self, codes: Tensor, order: Tensor, rank: Tensor, count: Tensor, chunk: int, causal: bool) -> Near:
        if self.form == "band" or (self.form is None and causal):
            place = rank + codes * (self.chunk + 1)
            return BucketBand(place.masked_fill(rank >= count, FAR), self.chunk, self.once)
        own, filled = rank // chunk, -(-count // chunk)
        previous = torch.where(own == 0, filled.clamp(min=1), own) - 1
        return Ring(order, own, previous, codes if self.alike else None, causal, self.once)


def unit_keys(k: Tensor) -> Tensor:
    """Keys of length 1."""
    precise = k.to(torch.promote_types(k.dtype, torch.float32))
    return (precise * (precise.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * k.shape[-1] ** -0.5).to(k.dtype)


def over(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The same for every head: (n,) or (..., n) -> (..., h, n)"""
    return (x if x.ndim == 1 else x.unsqueeze(-2)).expand(*lead, x.shape[-1])


def random_rotations(seed: int, heads: int, dim: int, rounds: int, columns: int) -> Tensor:
    """(h, e, r, columns), in float32 whatever the model is in: the same seed, the same buckets"""
    return drawn(seed, heads, dim, rounds, columns)


# As torch.compiler.assume_constant_result marks it, which would load the compiler here and now, for everybody.
random_rotations._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def drawn(seed: int, heads: int, dim: int, rounds: int, columns: int) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(heads, dim, rounds, columns, generator=generator, device="cpu", dtype=torch.float32)
