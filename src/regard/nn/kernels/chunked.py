"""Local attention in chunks: each chunk of a text looks at itself and at the one before it.

Reformer: The Efficient Transformer (Kitaev, Kaiser and Levskaya, 2020), https://arxiv.org/abs/2001.04451; the layers
between those that hash, as in the authors' code.
    query i sees {j: c(i) - 1 <= c(j) <= c(i) + after}, c(i) = position of i / m
What looks both ways has its chunks in a ring: before the first one stands the last. Padding takes no position, and
looks at nothing. A chunk that stands on both sides of another counts twice there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import attention
from ..attention import Kernel, Mixer, Softmax, by_rows, repeat_heads
from ..mask import ALL, Bias, Mask, add_head_axis, count, masked_softmax
from ..recomputation import RowPart, compute_in_parts
from ..site import Site

NAME = "chunked attention"


@dataclass(frozen=True, kw_only=True)
class Settings:
    chunk: int = 64
    after: int = 0  # chunks after its own that a query sees, where it may look ahead


def build(settings: Settings, site: Site) -> Mixer:
    if site.cross:
        raise ValueError(
            f"{NAME} compares positions within one sequence, so it does not support cross-attention to a context"
        )
    if site.biased:
        raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")
    return site.attention(Chunked(settings.chunk, settings.after, site.dropout))


class Chunked(Kernel):
    def __init__(self, chunk: int, after: int = 0, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if chunk < 1 or after not in (0, 1):
            raise ValueError(f"chunk must be at least 1 and after 0 or 1, got chunk = {chunk}, after = {after}")
        self.chunk, self.after, self.softmax = chunk, after, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        rows, columns = q.shape[-2], k.shape[-2]
        real = mask.keys if mask.keys is not None else torch.ones(columns, dtype=torch.bool, device=q.device)
        chunks = (-(-real.sum(-1) // self.chunk)).clamp(min=1)[..., None, None]
        of_keys, of_queries = count(real) // self.chunk, mask.positions(rows, q.device) // self.chunk
        away = add_head_axis(of_keys[..., None, :] - of_queries[..., :, None])
        ring = chunks.unsqueeze(-3) if chunks.ndim > 2 else chunks  # how many chunks stand in it
        times = (away == 0).to(q.dtype)
        if mask.causal:
            times = times + (away == -1)
        else:
            for step in (-1, 1)[: 1 + self.after]:
                times = times + ((ring > 1) & ((away - step) % ring == 0))
        allowed = mask.dense(rows, columns, q.device)
        allowed = times > 0 if allowed is None else allowed & (times > 0)
        asking = mask.real(rows, q.device)
        allowed = allowed if asking is None else allowed & asking[..., None, :, None]
        scores = q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5
        return masked_softmax(scores + times.clamp(min=1).log(), allowed)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        n = q.shape[-2]
        if n != k.shape[-2] or not isinstance(mask.start, int) or mask.start or not k.numel():
            return by_rows(self.explicit, q, k, v, mask, None)
        k, v, lead = repeat_heads(k, q.shape[-3]), repeat_heads(v, q.shape[-3]), q.shape[:-3]
        filled = torch.full((*[1] * len(lead), 1), n, device=q.device)
        order = torch.arange(n, device=q.device).expand(*[1] * len(lead), n)
        if mask.keys is not None:  # what is real comes first
            real = mask.keys.expand(*lead, n)
            order, filled = (~real).byte().argsort(dim=-1, stable=True), real.sum(-1, keepdim=True)
        blocks = self.blocks(n, filled, mask.causal)
        c, m = blocks.own.shape[-2:]
        if mask.keys is None:
            steps = self.steps(c, mask.causal)
            given = [laid(q, c, m, ()), laid(k, c, m, steps), laid(v, c, m, steps)]
        else:
            asking, asked = (
                order.take_along_dim(x.flatten(-2).clamp(max=n - 1), -1) for x in (blocks.own, blocks.seen)
            )
            given = [x.take_along_dim(i[..., None, :, None], -2) for x, i in ((q, asking), (k, asked), (v, asked))]
        parts = [self.part(blocks, chunks, rows) for chunks, rows in blocks.pieces(c, m)]
        y = compute_in_parts(parts, *given) if len(parts) > 1 else parts[0].make(*given)  # (..., h, c * m, f)
        if mask.keys is None:
            return y[..., :n, :]
        return y[..., :n, :].take_along_dim(order.argsort(dim=-1)[..., None, :, None], -2)

    def blocks(self, n: int, filled: Tensor, causal: bool) -> "Blocks":
        """The queries and the keys of each chunk, if the first ``filled`` of n positions are real."""
        m, device = min(self.chunk, n), filled.device
        c, chunks = -(-n // m), (-(-filled // m)).clamp(min=1)[..., None]  # (..., 1, 1)
        own = torch.arange(c * m, device=device).view(c, m).expand(*filled.shape[:-1], c, m)
        seen = [own]
        for step in self.steps(c, causal):
            there = (torch.arange(c, device=device)[:, None] + step) % chunks * m + torch.arange(m, device=device)
            seen.insert(0, there.masked_fill(chunks == 1, c * m))  # nobody stands there
        return Blocks(own, torch.cat(seen, -1), filled[..., None], causal)

    def steps(self, c: int, causal: bool) -> tuple[int, ...]:
        """Offsets of the chunks that are seen besides the own one."""
        return () if c == 1 else (-1, 1)[: 1 if causal else 1 + self.after]

    def part(self, blocks: "Blocks", chunks: slice, rows: slice) -> RowPart:
        m, w = blocks.own.shape[-1], blocks.seen.shape[-1]
        keys = slice(chunks.start * w, chunks.stop * w)
        queries = slice(chunks.start * m + rows.start, (chunks.stop - 1) * m + rows.stop)

        def make(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            split = [x.unflatten(-2, (chunks.stop - chunks.start, -1)).movedim(-3, -4) for x in (q, k, v)]
            y = self.softmax(*split, Mask(pairs=blocks.pairs(chunks, rows).unsqueeze(-3)))  # (..., c, h, rows, f)
            return y.movedim(-4, -3).flatten(-3, -2)

        return RowPart(queries, (queries, keys, keys), make)

    def refuse(self, mask: Mask, bias: Bias | None) -> None:
        mask.structured(NAME)
        if bias is not None:
            raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")


def laid(x: Tensor, c: int, m: int, steps: tuple[int, ...]) -> Tensor:
    """What each chunk sees of a text without padding, one chunk after the other.  (..., n, e) -> (..., c * w, e)"""
    chunks = F.pad(x, (0, 0, 0, c * m - x.shape[-2])).unflatten(-2, (c, m))
    return torch.cat([*(chunks.roll(-step, -3) for step in reversed(steps)), chunks], -2).flatten(-3, -2)


@dataclass(frozen=True, eq=False)
class Blocks:
    own: Tensor  # (..., c, m): the places of a chunk
    seen: Tensor  # (..., c, w): those that it looks at
    filled: Tensor  # (..., 1, 1): how many are real
    causal: bool

    def pairs(self, chunks: slice, rows: slice) -> Tensor:
        """-> bool (..., c, rows, w)"""
        own, seen = self.own[..., chunks, rows], self.seen[..., chunks, :]
        found = (seen < self.filled).unsqueeze(-2) & (own < self.filled).unsqueeze(-1)
        return found & (seen.unsqueeze(-2) <= own.unsqueeze(-1)) if self.causal else found

    def pieces(self, c: int, m: int) -> Iterator[tuple[slice, slice]]:
        """Some chunks at a time; of a chunk that has too many scores by itself, some of its queries."""
        w = self.seen.shape[-1]
        chunks, rows = max(attention.DENSE // (m * w), 1), max(min(attention.DENSE // w, m), 1)
        for top in range(0, c, chunks):
            for start in range(0, m, rows):
                yield slice(top, min(top + chunks, c)), slice(start, min(start + rows, m))
