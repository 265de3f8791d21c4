"""LoRA: small matrices beside large ones that stay as they are.

LoRA: Low-Rank Adaptation of Large Language Models (Hu et al., 2021), https://arxiv.org/abs/2106.09685
    W x + (alpha / r) B A x
B begins at zero, so at first nothing changes; in the end both can be merged into W, and cost nothing more.

Shapes: d width in, e width out, r rank.
"""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import closest_name


class Adapted(nn.Module):
    """A frozen linear layer and its trainable LoRA matrices."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        if not 1 <= rank <= min(linear.weight.shape):
            raise ValueError(
                f"the LoRA rank must be from 1 to {min(linear.weight.shape)}, the smaller side of the "
                f"weight, got {rank}"
            )
        self.linear, self.scale = linear.requires_grad_(False), alpha / rank
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., e)"""
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.down), self.up)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A single linear layer with the same output."""
        self.linear.weight += change(self.up, self.down, self.scale)
        return self.linear.requires_grad_(True)


def change(up: Tensor, down: Tensor, scale: float) -> Tensor:
    """What an adapter adds to the weight beside it."""
    return scale * (up @ down)


def adapt(net: nn.Module, patterns: Sequence[str], rank: int, alpha: float) -> list[str]:
    """Add LoRA adapters to all linear layers whose names match and freeze everything else. -> the names of these
    layers"""
    linear = {name: module for name, module in net.named_modules() if isinstance(module, nn.Linear)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in linear):
            raise ValueError(f"no linear layer of this model matches {pattern!r}{closest_name(pattern, linear)}")
    net.requires_grad_(False)
    found = [name for name in linear if any(fnmatchcase(name, pattern) for pattern in patterns)]
    for name in found:
        put(net, name, Adapted(linear[name], rank, alpha))
    return found


def merge(net: nn.Module) -> None:
    """Merge every adapter into its linear layer; names and shapes are then as before ``adapt``."""
    for name, module in list(net.named_modules()):
        if isinstance(module, Adapted):
            put(net, name, module.merged())


def merged_state(state: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """The weights of a net with adapters by name, as ``merge`` leaves them."""
    places = [name.removesuffix(".linear.weight") for name in state if name.endswith(".linear.weight")]
    places = [place for place in places if f"{place}.down" in state and f"{place}.up" in state]
    found = {name: x for name, x in state.items() if name.rpartition(".")[0] not in places}
    for place in places:
        for part in ("weight", "bias"):
            if f"{place}.linear.{part}" in found:
                found[f"{place}.{part}"] = found.pop(f"{place}.linear.{part}")
        found[f"{place}.weight"] += change(state[f"{place}.up"], state[f"{place}.down"], scale)
    return found


def adapter_state(net: nn.Module) -> dict[str, Tensor]:
    """The weights of the adapters alone, by name: "blocks.0.mixer.q.down"."""
    places = [name for name, module in net.named_modules() if isinstance(module, Adapted)]
    state = net.state_dict()
    return {key: state[key] for name in places for key in (f"{name}.down", f"{name}.up")}


def put(net: nn.Module, name: str, module: nn.Module) -> None:
    owner, _, last = name.rpartition(".")
    setattr(net.get_submodule(owner), last, module)
