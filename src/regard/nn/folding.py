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
    """A map and a norm of fixed numbers, which can be one map."""

    def folded(self) -> nn.Module:
        """What takes its place; its own tensors may be changed."""
        raise NotImplementedError


class Normed(Foldable):
    """A linear map without a bias, and a batch norm of what it gives."""

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
    """A batch norm, and a linear map of what it gives."""

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
    """A module whose linear maps of these names, as far as it has them, have each a batch norm from now on."""
    for name in names:
        linear = getattr(module, name)
        if isinstance(linear, nn.Linear):
            module.register_module(name, Normed(linear))
    return module


@torch.no_grad()
def fold(net: nn.Module) -> None:
    """Every batch norm that follows or leads a map becomes part of it. Then the net can no longer be trained."""
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Foldable):
                module.register_module(name, child.folded().requires_grad_(False))
