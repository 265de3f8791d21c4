"""Local attention in chunks: each chunk of a text looks at itself and at the one before it.

Reformer: The Efficient Transformer (Kitaev, Kaiser and Levskaya, 2020), https://arxiv.org/abs/2001.04451; the layers
between those that hash, as in the authors' code.
    query i sees {j: c(i) - 1 <= c(j) <= c(i) + after}, c(i) = position of i / m
What looks both ways has its chunks in a ring: before the first one stands the last. Padding takes no position, and
looks at nothing. A chunk that stands on both sides of another counts twice there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..attention import Kernel, Mixer, Softmax, by_rows, spread
from ..mask import ALL, Bias, Mask, count, masked_softmax, over_heads
from ..replay import recompute
from ..site import Site

NAME = "attention in chunks"


@dataclass(frozen=True, kw_only=True)
class Settings:
    chunk: int = 64
    after: int = 0  # chunks after its own that a query sees, where it may look ahead


def build(settings: Settings, site: Site) -> Mixer:
    if site.cross:
        raise ValueError(f"{NAME} compares places in one sequence, so it cannot serve a context")
    if site.biased:
        raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")
    return site.attention(Chunked(settings.chunk, settings.after, site.dropout))


class Chunked(Kernel):
    def __init__(self, chunk: int, after: int = 0, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if chunk < 1 or after not in (0, 1):
            raise ValueError(f"a chunk has at least one position, and sees at most one after it: {chunk}, {after}")
        self.chunk, self.after, self.softmax = chunk, after, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        rows, columns = q.shape[-2], k.shape[-2]
        real = mask.keys if mask.keys is not None else torch.ones(columns, dtype=torch.bool, device=q.device)
        chunks = (-(-real.sum(-1) // self.chunk)).clamp(min=1)[..., None, None]
        of_keys, of_queries = count(real) // self.chunk, mask.positions(rows, q.device) // self.chunk
        away = over_heads(of_keys[..., None, :] - of_queries[..., :, None])
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
        scores = q @ spread(k, q.shape[-3]).mT * q.shape[-1] ** -0.5
        return masked_softmax(scores + times.clamp(min=1).log(), allowed)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        self.refuse(mask, bias)
        n = q.shape[-2]
        if n != k.shape[-2] or not isinstance(mask.start, int) or mask.start or not k.numel():
            return by_rows(self.explicit, q, k, v, mask, None)
        k, v, lead = spread(k, q.shape[-3]), spread(v, q.shape[-3]), q.shape[:-3]
        m, device = min(self.chunk, n), q.device
        filled = torch.full((*[1] * len(lead), 1), n, device=device)
        order = torch.arange(n, device=device).expand(*[1] * len(lead), n)
        if mask.keys is not None:  # what is real comes first
            real = mask.keys.expand(*lead, n)
            order, filled = (~real).byte().argsort(dim=-1, stable=True), real.sum(-1, keepdim=True)
        c = -(-n // m)
        places = torch.arange(c * m, device=device).view(c, m).expand(*order.shape[:-1], c, m)
        chunks = (-(-filled // m)).clamp(min=1)[..., None]  # (..., 1, 1)
        blocks = [places]
        if c > 1:
            around = [-1] if mask.causal or not self.after else [-1, 1]
            whole = torch.arange(c, device=device)[:, None]
            for step in around:
                there = (whole + step) % chunks * m + torch.arange(m, device=device)
                blocks.insert(-1, there.masked_fill(chunks == 1, c * m))  # nobody stands there
        seen = torch.cat(blocks, -1)  # (..., c, w)
        valid = seen < filled[..., None]
        ask = places < filled[..., None]
        pairs = valid.unsqueeze(-2) & ask.unsqueeze(-1)
        if mask.causal:
            pairs = pairs & (seen.unsqueeze(-2) <= places.unsqueeze(-1))
        asking, asked = (held(order, x.clamp(max=n - 1), lead) for x in (places, seen))
        back = None if mask.keys is None else order.argsort(dim=-1)[..., None, :, None]

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            blocks = [taken(x, index) for x, index in ((q, asking), (k, asked), (v, asked))]
            y = self.softmax(*blocks, Mask(pairs=pairs.unsqueeze(-3)))  # (..., c, h, m, f)
            y = y.movedim(-4, -3).flatten(-3, -2)[..., :n, :]
            return y if back is None else y.take_along_dim(back, -2)

        return recompute(run, q, k, v) if torch.is_grad_enabled() else run(q, k, v)

    def refuse(self, mask: Mask, bias: Bias | None) -> None:
        mask.structured(NAME)
        if bias is not None:
            raise ValueError(f"{NAME} never forms the score matrix, so it cannot take a bias")


def held(order: Tensor, places: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The positions that stand at these places.  (..., n), (..., c, w) -> (..., c, w)"""
    return order.take_along_dim(places.flatten(-2), -1).view_as(places).expand(*lead, *places.shape[-2:])


def taken(x: Tensor, index: Tensor) -> Tensor:
    """(..., h, n, e), (..., c, w) -> (..., c, h, w, e)"""
    c, w = index.shape[-2:]
    rows = x.take_along_dim(index.flatten(-2)[..., None, :, None], -2)
    return rows.unflatten(-2, (c, w)).movedim(-3, -4)
