"""Local attention: each query looks only at keys less than a window away.

Generating Long Sequences with Sparse Transformers (Child et al., 2019), https://arxiv.org/abs/1904.10509, section 4.2;
the banded layers of GPT-3 (Brown et al., 2020), https://arxiv.org/abs/2005.14165, section 2.1
    query i sees {j: i - window < j <= i}; where it may look ahead too, {j: |i - j| < window}
"""

import torch
from torch import Tensor

from .. import attention
from ..attention import Kernel, Softmax
from ..mask import ALL, Bias, Mask, cut
from ..replay import Part, in_parts

SMALL = 64  # queries of a tile, where the window is smaller still: fewer products, each larger


class Local(Kernel):
    """Softmax within a band, tile by tile: the cost grows with the window, not with the length."""

    def __init__(self, window: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if window < 1:
            raise ValueError(f"local attention must see at least one key, got a window of {window}")
        self.window, self.softmax = window, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.softmax.weights(q, k, self.band(mask, q.shape[-2], k.shape[-2], q.device), bias)

    def band(self, mask: Mask, rows: int, columns: int, device: torch.device, first: int = 0) -> Mask:
        """The mask within the band; the columns are those from ``first`` on."""
        keys = torch.arange(first, first + columns, device=device)
        away = keys - mask.places(rows, device)[..., :, None]
        near = away.abs() < self.window
        near = near & (away <= 0) if mask.causal else near
        near = near if near.ndim == 2 else near.unsqueeze(-3)
        return Mask(keys=mask.keys, pairs=near if mask.pairs is None else near & mask.pairs)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if bias is not None or not isinstance(mask.start, int) or not q.shape[-2]:
            return super().forward(q, k, v, mask, bias)
        wide = max(min(self.window, k.shape[-2]), SMALL)
        height = max(min(wide, attention.DENSE // (3 * wide)), 1)  # a tile sees its own keys and a window on each side
        tops = range(0, q.shape[-2], height)
        parts = [self.part(mask, slice(top, min(top + height, q.shape[-2])), k.shape[-2]) for top in tops]
        return in_parts(parts, q, k, v) if len(parts) > 1 else parts[0].make(*parts[0].cut((q, k, v)))

    def part(self, mask: Mask, rows: slice, columns: int) -> Part:
        """Some queries, and the keys that any of them may see."""
        assert isinstance(mask.start, int)
        first, last = mask.start + rows.start, mask.start + rows.stop  # the places of these queries
        end = min(columns, last if mask.causal else last + self.window - 1)
        seen = slice(min(max(first - self.window + 1, 0), end), end)
        keys = None if mask.keys is None else mask.keys[..., seen]
        pairs = None if mask.pairs is None else cut(mask.pairs, rows, seen)
        here = Mask(mask.causal, first, keys, pairs)

        def make(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return self.softmax(q, k, v, self.band(here, q.shape[-2], k.shape[-2], q.device, seen.start))

        return Part(rows, (rows, seen, seen), make)
