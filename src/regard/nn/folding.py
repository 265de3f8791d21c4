"""Linear maps with a batch norm before or behind, which for inference are one map.

Shapes: d width of what comes in, e of what goes out.
"""

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .batchnorm import BatchNorm

Net = TypeVar("Net", bound=nn.Module)


class Foldable(nn.Module):
    """Base class of a linear layer and a fixed norm that can be folded into one linear layer."""

    def folded(self) -> nn.Module:
        """The folded layer; the tensors of this module may be changed."""
        raise NotImplementedError


class Normed(Foldable):
    """A linear layer without a bias, followed by batch norm."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.norm = linear, BatchNorm(linear.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., e)"""
        y: Tensor = self.linear(x)
        return self.norm(y.flatten(0, -2)).view_as(y)

    def folded(self) -> nn.Linear:
        return linear_map(self.linear.weight * self.norm.factor()[:, None], self.norm.shift())


class NormThenLinear(Foldable):
    """Batch norm, followed by a linear layer."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.norm, self.linear = BatchNorm(linear.in_features), linear

    def forward(self, x: Tensor) -> Tensor:
        """(b, d) -> (b, e)"""
        return self.linear(self.norm(x))

    def folded(self) -> nn.Linear:
        moved = F.linear(self.norm.shift(), self.linear.weight, self.linear.bias)
        return linear_map(self.linear.weight * self.norm.factor(), moved)


def linear_map(weight: Tensor, bias: Tensor) -> nn.Linear:
    with torch.device("meta"):
        linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return linear


def with_norms(module: Net, *names: str) -> Net:
    """Add a batch norm to each linear layer of a module that has one of these names."""
    for name in names:
        linear = getattr(module, name)
        if isinstance(linear, nn.Linear):
            module.register_module(name, Normed(linear))
    return module


@torch.no_grad()
def fold(net: nn.Module) -> None:
    """Fold every batch norm into the linear layer beside it. The net can no longer be trained afterwards."""
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Foldable):
                module.register_module(name, child.folded().requires_grad_(False))
