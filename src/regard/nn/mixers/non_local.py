"""The non-local block: attention for convolutional nets.

Non-local Neural Networks (Wang, Girshick, Gupta and He, 2018), https://arxiv.org/abs/1711.07971
    y_i = (1/C) sum_j f(x_i, x_j) g(x_j),    z = x + W y
Every pixel of a map looks at all others, in half of the channels. A norm whose factor starts at 0 stands behind W, so
that the block begins as the identity and can be put into a trained net.

    gaussian    f = exp(x_i . x_j), C the sum of f: a softmax, without 1/sqrt(e)
    embedded    the same with theta(x_i) and phi(x_j), two linear maps
    dot         theta(x_i) . phi(x_j), C the number of pixels
    concat      relu(w . [theta(x_i); phi(x_j)]), C the number of pixels

Shapes: b batch, c channels, h rows and w columns of a map, n = h*w pixels, e inner channels.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Kernel, MultiHeadAttention, Softmax, zero_padding
from ..batchnorm import BatchNorm, ChannelNorm
from ..convolution import Norm, halved_sizes, real_pixels, zero_beyond
from ..folding import Foldable
from ..kernels.pairwise import MeanConcat, MeanDot
from ..mask import ALL, Mask

Form = Literal["gaussian", "embedded", "dot", "concat"]


class NonLocal(Foldable):
    """The non-local block. ``pool`` is the paper's subsampling: max pooling of keys and values over squares of this
    side."""

    def __init__(self, dim: int, form: Form = "embedded", pool: int = 1, norm: Norm = BatchNorm) -> None:
        super().__init__()
        inner = max(dim // 2, 1)
        width = dim if form == "gaussian" else inner
        self.attention = MultiHeadAttention(dim, 1, kernel=kernel(form, width), head_dim=width, value_dim=inner)
        if form == "gaussian":  # pixels are compared as they are
            self.attention.add_module("q", nn.Identity())
            self.attention.add_module("k", nn.Identity())
        self.pool = pool
        last = norm(dim)
        with torch.no_grad():
            last.weight.zero_()
        self.norm: nn.Module = last

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w); sizes (b, 2) is the part of each map that is not padding"""
        grid = x.shape[-2:]
        keys = None if sizes is None else real_pixels(sizes, *grid).flatten(1)
        pixels = zero_padding(x.flatten(2).mT, keys)
        q, k, v = self.attention.project(pixels, pixels, pixels)
        mask = ALL if keys is None else Mask(keys=keys)
        if self.pool > 1:
            k, v = (self.largest(part, grid, keys) for part in (k, v))
            few = halved_sizes(sizes, self.pool)
            mask = ALL if few is None else Mask(keys=real_pixels(few, *pooled(grid, self.pool)).flatten(1))
        y = self.attention.merge(self.attention.attend(q, k, v, mask)).mT.unflatten(2, grid)
        return x + zero_beyond(self.norm(y), sizes)

    def folded(self) -> "NonLocal":
        """The norm in the last map of the attention."""
        out = self.attention.out
        if isinstance(self.norm, ChannelNorm) and isinstance(out, nn.Linear):
            factor, shift = self.norm.factor(), self.norm.shift()
            out.weight = nn.Parameter(out.weight * factor[:, None])
            out.bias = nn.Parameter(shift if out.bias is None else shift + out.bias * factor)
            self.norm = nn.Identity()
        return self

    def largest(self, part: Tensor, grid: torch.Size, keys: Tensor | None) -> Tensor:
        """(b, 1, h*w, e) -> (b, 1, fewer, e); squares at the border may be cut"""
        whole = part[:, 0] if keys is None else part[:, 0].masked_fill(~keys[..., None], -torch.inf)
        found = F.max_pool2d(whole.mT.unflatten(2, grid), self.pool, ceil_mode=True).flatten(2).mT
        return found.masked_fill(found == -torch.inf, 0.0)[:, None]


def pooled(grid: torch.Size, pool: int) -> tuple[int, int]:
    return -(-grid[0] // pool), -(-grid[1] // pool)


def kernel(form: Form, width: int) -> Kernel:
    if form == "dot":
        return MeanDot()
    return MeanConcat(1, width) if form == "concat" else Softmax(scale=1.0)
