"""Linformer: keys and values are summed up to a few before anyone looks at them.

Linformer: Self-Attention with Linear Complexity (Wang et al., 2020), https://arxiv.org/abs/2006.04768
    softmax(Q (E K)^T / sqrt(e)) F V, where E and F are r x n: r stays while n grows, so the cost is linear in n
Attention maps are nearly of low rank, so little need be lost; but E and F must be learned, no random ones will do. Each
head may have its own, or heads, keys and values, or all layers of a model share them. Instead of a learned matrix, the
mean of each window of n / r keys may be taken, or a learned sum of it (a convolution that steps by its own width).

A key's weight is what reaches its value: softmax(Q (E K)^T) F. It may be negative, and a row need not sum to 1. Each
sum mixes early keys with late ones, so there is no causal form.

Differs from the paper: shorter inputs use the first columns of E and F, and padding none, on either side.

Shapes: b batch, h heads, g groups, q queries, n keys, r sums of keys, w width of a window, e width of a head.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Kernel, Mixer, Softmax, repeat_heads
from ..config import not_positive, refuse
from ..mask import ALL, Bias, Mask, count
from ..site import DropoutError, Site

Sharing = Literal["none", "heads", "values", "layers"]  # each shares all that those before it do
Sums = Literal["learned", "convolution", "mean"]


class DenseProjection(nn.Module):
    """A learned projection matrix r x n; one for each head, or one for all."""

    def __init__(self, heads: int, rank: int, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, rank, length))
        nn.init.normal_(self.weight, std=rank**-0.5)

    def matrix(self, n: int) -> Tensor:
        """-> (h or 1, r, n)"""
        return self.weight if n == self.weight.shape[-1] else self.weight[..., :n]

    def forward(self, x: Tensor) -> Tensor:
        """(b, g, n, e) -> (b, g or h, r, e)"""
        matrix = self.matrix(x.shape[-2])
        if len(matrix) > 1:
            return matrix @ repeat_heads(x, len(matrix))
        wide = x.transpose(-3, -2).flatten(-2)  # one large product for all heads; (b, n, g * e), as projections left it
        return (matrix.squeeze(0) @ wide).unflatten(-1, (x.shape[-3], x.shape[-1])).transpose(-3, -2)

    def live(self, lengths: Tensor, n: int) -> Tensor | None:
        """Which sums have a key in them: all."""
        return None


class WindowProjection(nn.Module):
    """A weighted sum over each window of positions, the same for all windows: the mean, or learned weights."""

    def __init__(self, heads: int, rank: int, length: int, *, learned: bool) -> None:
        super().__init__()
        width = -(-length // rank)
        mean = torch.full((heads, width, 1), 1 / width)
        self.width, self.taps = width, nn.Parameter(mean) if learned else None

    def matrix(self, n: int) -> Tensor:
        """-> (h or 1, windows, n)"""
        eye = torch.eye(n, device=None if self.taps is None else self.taps.device)
        return self(eye.to(torch.get_default_dtype() if self.taps is None else self.taps.dtype).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        """(b, g, n, e) -> (b, g or h, windows, e)"""
        x = x if self.taps is None or len(self.taps) == 1 else repeat_heads(x, len(self.taps))
        windows = F.pad(x, (0, 0, 0, -x.shape[-2] % self.width))
        windows = windows.unflatten(-2, (windows.shape[-2] // self.width, self.width))
        return windows.mean(-2) if self.taps is None else (windows * self.taps[:, None]).sum(-2)

    def live(self, lengths: Tensor, n: int) -> Tensor | None:
        """Which windows have a key in them.  (..., 1) -> bool (..., windows)"""
        return torch.arange(0, n, self.width, device=lengths.device) < lengths


Projection = DenseProjection | WindowProjection


class Linformer(Kernel):
    """``values`` is left out where keys and values share one projection, and ``lent`` is that of another layer."""

    def __init__(
        self, length: int, keys: Projection | None, values: Projection | None, lent: Projection | None = None
    ) -> None:
        super().__init__()
        self.length, self.keys, self.values = length, keys, values
        self.lent = (lent,)  # in a tuple it is no part of this module: its weights have one name, in one layer
        self.softmax = Softmax()

    def projections(self) -> tuple[Projection, Projection]:
        keys = self.lent[0] if self.keys is None else self.keys
        assert keys is not None
        return keys, self.values or keys

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        kept = self.kept(k, mask, bias)
        keys, values = self.projections()
        few = self.softmax.weights(q, keys(kept.gather(k)), Mask(keys=kept.live(keys)))  # (b, h, q, r)
        matrix = values.matrix(k.shape[-2]).to(few)
        if mask.keys is not None:
            matrix = matrix[..., count(mask.keys)].movedim((0, 1), (-3, -2)) * mask.keys[..., None, None, :]
        return few @ matrix

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        kept = self.kept(k, mask, bias)
        keys, values = self.projections()
        return self.softmax(q, keys(kept.gather(k)), values(kept.gather(v)), Mask(keys=kept.live(keys)))

    def kept(self, k: Tensor, mask: Mask, bias: Bias | None) -> "Kept":
        """What can be honoured of a mask: which keys are there."""
        if mask.causal:
            raise ValueError("Linformer projects early and late keys together, so it cannot be causal")
        if bias is not None:
            raise ValueError("Linformer has no scores for single keys, so it cannot take a bias")
        mask.structured("Linformer")
        if k.shape[-2] > self.length:
            raise ValueError(
                f"Linformer was built for inputs of a fixed length: got {k.shape[-2]} keys, expected at most "
                f"{self.length}; shorten the input"
            )
        return Kept(mask.keys, k.shape[-2])


@dataclass(frozen=True, eq=False)
class Kept:
    """Move the real tokens of each row to the front, followed by zeros, so that padding has no effect."""

    keys: Tensor | None  # bool (..., n)
    n: int

    def gather(self, x: Tensor) -> Tensor:
        """(b, g, n, e) -> (b, g, n, e)"""
        if self.keys is None:
            return x
        order = (~self.keys).to(torch.uint8).argsort(stable=True, dim=-1)[..., None, :, None]
        front = x.take_along_dim(order.expand(*x.shape[:-3], *order.shape[-3:]), -2)
        return front.masked_fill(~self.there()[..., None, :, None], 0.0)

    def there(self) -> Tensor:
        assert self.keys is not None
        return torch.arange(self.n, device=self.keys.device) < self.lengths()

    def lengths(self) -> Tensor:
        assert self.keys is not None
        return self.keys.sum(-1, keepdim=True)

    def live(self, projection: Projection) -> Tensor | None:
        return None if self.keys is None else projection.live(self.lengths(), self.n)


@dataclass(frozen=True, kw_only=True)
class Settings:
    rank: int | None = None  # to how many keys are summed up; a quarter of the length, at most 256, unless given
    length: int | None = None  # of the longest input; as the model says unless given
    shared: Sharing = "heads"
    sums: Sums = "learned"

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rank", "length"))


def build(settings: Settings, site: Site) -> Mixer:
    if site.causal:
        raise ValueError("Linformer projects early and late keys together, so it cannot be causal")
    if site.biased:
        raise ValueError("Linformer has no scores for single keys, so it cannot take a bias")
    if site.dropout:
        raise DropoutError("Linformer has no weights for single keys, so it does not support attention dropout")
    length = settings.length or site.length
    if length is None:
        raise ValueError(
            "Linformer has a weight for each position, so it needs the maximum sequence length: set `length`"
        )
    rank = max(min(length // 4, 256), 1) if settings.rank is None else settings.rank
    heads = site.heads if settings.shared == "none" else 1

    def projection() -> Projection:
        if settings.sums == "learned":
            return DenseProjection(heads, rank, length)
        return WindowProjection(heads, rank, length, learned=settings.sums == "convolution")

    if settings.shared != "layers":
        values = None if settings.shared == "values" or settings.sums == "mean" else projection()
        return site.attention(Linformer(length, projection(), values))
    if site.common is None:
        raise ValueError(
            "Linformer cannot share its projection between layers here: this model provides no storage "
            "shared by its layers"
        )
    name = f"linformer {settings.sums} {rank} {length}"
    if name in site.common:
        lent = site.common[name]
        assert isinstance(lent, DenseProjection | WindowProjection)
        return site.attention(Linformer(length, None, None, lent))
    site.common[name] = first = projection()
    return site.attention(Linformer(length, first, None))
