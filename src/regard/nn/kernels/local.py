"""Local attention: each query looks only at keys less than a window away.

Generating Long Sequences with Sparse Transformers (Child et al., 2019), https://arxiv.org/abs/1904.10509, section 4.2;
the banded layers of GPT-3 (Brown et al., 2020), https://arxiv.org/abs/2005.14165, section 2.1
    query i sees {j: i - window < j <= i}; where it may look ahead too, {j: |i - j| < window}
"""

import torch
from torch import Tensor

from .. import attention
from ..attention import Kernel, Softmax
from ..mask import ALL, Bias, Mask, add_head_axis, slice_tile
from ..recomputation import RowPart, compute_in_parts

SMALL = 64  # queries of a tile, where the window is smaller still: fewer products, each larger


class Local(Kernel):
    """Softmax within a band, tile by tile: the cost grows with the window, not with the length."""

    def __init__(self, window: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if window < 1:
            raise ValueError(f"the window of local attention must be at least 1, got {window}")
        self.window, self.softmax = window, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.softmax.weights(q, k, within(mask, self.seen(mask, q.shape[-2], k.shape[-2], q.device)), bias)

    def seen(self, mask: Mask, rows: int, columns: int, device: torch.device, first: int = 0) -> Tensor:
        """Which keys are in the band; the columns are those from ``first`` on. -> bool (..., q, k)"""
        steps = away(mask, rows, columns, device, first)
        return earlier(mask, steps.abs() < self.window, steps)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if bias is not None or not isinstance(mask.start, int) or not q.shape[-2]:
            return super().forward(q, k, v, mask, bias)
        wide = max(min(self.window, k.shape[-2]), SMALL)
        height = max(min(wide, attention.DENSE // (3 * wide)), 1)  # a tile sees its own keys and a window on each side
        tops = range(0, q.shape[-2], height)
        parts = [self.part(mask, slice(top, min(top + height, q.shape[-2])), k.shape[-2]) for top in tops]
        return one_or_more(parts, q, k, v)

    def part(self, mask: Mask, rows: slice, columns: int) -> RowPart:
        """Some queries, and the keys that any of them may attend to."""
        assert isinstance(mask.start, int)
        first, last = mask.start + rows.start, mask.start + rows.stop  # the places of these queries
        end = min(columns, last if mask.causal else last + self.window - 1)
        near = slice(min(max(first - self.window + 1, 0), end), end)
        keys = None if mask.keys is None else mask.keys[..., near]
        pairs = None if mask.pairs is None else slice_tile(mask.pairs, rows, near)
        here = Mask(mask.causal, first, keys, pairs)

        def make(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return self.softmax(q, k, v, within(here, self.seen(here, q.shape[-2], k.shape[-2], q.device, near.start)))

        return RowPart(rows, (rows, near, near), make)


def one_or_more(parts: list[RowPart], *inputs: Tensor) -> Tensor:
    """A part that is alone need not be computed twice."""
    return compute_in_parts(parts, *inputs) if len(parts) > 1 else parts[0].make(*parts[0].cut(inputs))


def away(mask: Mask, rows: int, columns: int, device: torch.device, first: int = 0) -> Tensor:
    """Place of the key minus that of the query: (q, k), or (b, 1, q, k) where rows have a start of their own."""
    keys = torch.arange(first, first + columns, device=device)
    return add_head_axis(keys - mask.places(rows, device)[..., :, None])


def earlier(mask: Mask, seen: Tensor, steps: Tensor) -> Tensor:
    """What is ``seen`` and, if the mask is causal, does not come later; ``steps`` is how far away each key is."""
    return seen & (steps <= 0) if mask.causal else seen


def within(mask: Mask, seen: Tensor) -> Mask:
    """The mask, and beyond it only what is ``seen``, which knows already what is causal."""
    return Mask(keys=mask.keys, pairs=seen if mask.pairs is None else seen & mask.pairs)
