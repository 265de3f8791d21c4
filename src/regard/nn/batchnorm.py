"""Batch norm, as it learns and frozen; after training it is one factor and one shift for each channel.

Batch Normalization (Ioffe and Szegedy, 2015), https://arxiv.org/abs/1502.03167
    y = g (x - mean) / sqrt(variance + eps) + b
In training mean and variance are those of the batch; afterwards both are fixed, and so all of it is a linear map.

Differs from the paper: a batch with one value a channel, such as the last image of an epoch or a piece of a split
batch, is normalised by the running means, and does not change them. Its own would make every output b, whatever x is.

Shapes: b batch, c channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOMENTUM, EPS = 0.1, 1e-5


class ChannelNorm(nn.Module):
    """Base class of batch norms with fixed statistics: one factor and one shift for each channel."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor

    def factor(self) -> Tensor:
        """The factor of each channel. -> (c,)"""
        return self.weight * (self.variance + EPS).rsqrt()

    def shift(self) -> Tensor:
        """The shift of each channel. -> (c,)"""
        return self.bias - self.mean * self.factor()


class BatchNorm(ChannelNorm):
    """Batch norm: each channel to mean 0 and variance 1, by batch statistics in training, by running statistics in
    evaluation."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """(b, c, ...) -> (b, c, ...); in training only what is ``real``, (b, ...), counts, the rest becomes 0"""
        if real is not None and self.training:
            places = real.nonzero(as_tuple=True)
            own = self.forward(x.movedim(1, -1)[places])  # (n, c)
            return torch.zeros_like(x).movedim(1, -1).index_put(places, own).movedim(-1, 1)
        measured = (
            self.training and x.numel() > x.shape[1]
        )  # a single value has no variance: only what ran before helps
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, measured, MOMENTUM, EPS)


class FrozenBatchNorm(ChannelNorm):
    """Frozen batch norm: a fixed factor and a fixed shift for each channel, in training too."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        for name, start in {"weight": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}.items():
            self.register_buffer(name, torch.full((dim,), start))

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w)"""
        return x * self.factor()[:, None, None] + self.shift()[:, None, None]
