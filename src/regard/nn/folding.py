"""Linear maps and convolutions with a batch norm, which for inference are one.

Batch Normalization (Ioffe and Szegedy, 2015), https://arxiv.org/abs/1502.03167
    y = g (x - mean) / sqrt(variance + eps) + b
In training mean and variance are those of the batch; afterwards both are fixed, and so all of it is a linear map.

Shapes: d width; b batch, r rows, c columns.
"""

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Net = TypeVar("Net", bound=nn.Module)


class BatchNorm(nn.Module):
    """Over all axes but that of the features: the last one, or of an image the second."""

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)"""
        return self.of_images(x.flatten(0, -2)).view_as(x)

    def of_images(self, x: Tensor) -> Tensor:
        """(b, d, r, c) -> (b, d, r, c)"""
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training, self.momentum, self.eps)

    def factor(self) -> Tensor:
        """What it multiplies by after training.  -> (d,)"""
        return self.weight * torch.rsqrt(self.variance + self.eps)

    def remainder(self) -> Tensor:
        """What it adds.  -> (d,)"""
        return self.bias - self.mean * self.factor()


class Normed(nn.Module):
    """A linear map without a bias, and a batch norm of what it gives."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.norm = linear, BatchNorm(linear.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., e)"""
        return self.norm(self.linear(x))

    def folded(self) -> nn.Linear:
        weight = self.linear.weight * self.norm.factor()[:, None]
        return linear_map(weight, self.norm.remainder())


class NormedConvolution(nn.Module):
    """A convolution without a bias, and a batch norm of what it gives."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, BatchNorm(convolution.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """(b, d, r, c) -> (b, e, r', c')"""
        return self.norm.of_images(self.convolution(x))

    def folded(self) -> nn.Conv2d:
        self.convolution.weight = nn.Parameter(self.convolution.weight * self.norm.factor()[:, None, None, None])
        self.convolution.bias = nn.Parameter(self.norm.remainder())
        return self.convolution


class NormThenLinear(nn.Module):
    """A batch norm, and a linear map of what it gives."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.norm, self.linear = BatchNorm(linear.in_features), linear

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., e)"""
        return self.linear(self.norm(x))

    def folded(self) -> nn.Linear:
        moved = F.linear(self.norm.remainder(), self.linear.weight, self.linear.bias)
        return linear_map(self.linear.weight * self.norm.factor(), moved)


def linear_map(weight: Tensor, bias: Tensor) -> nn.Linear:
    with torch.device("meta"):
        linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return linear


def with_norms(module: Net, *names: str) -> Net:
    """A module whose linear maps of these names, as far as it has them, have each a batch norm from now on."""
    for name in names:
        linear = getattr(module, name)
        if isinstance(linear, nn.Linear):
            module.register_module(name, Normed(linear))
    return module


@torch.no_grad()
def fold(net: nn.Module) -> None:
    """Every batch norm that follows or leads a linear map becomes part of it. Then the net can no longer be trained."""
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Normed | NormedConvolution | NormThenLinear):
                module.register_module(name, child.folded().requires_grad_(False))
