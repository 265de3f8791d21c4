"""Optimizers by their settings, and their state as named tensors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from inspect import unwrap
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.config import not_above_zero, not_shares, refuse

from .runfile import setting
from .shards import by_place, is_shard, spread


@dataclass(frozen=True)
class AdamW:
    """Loshchilov & Hutter (2019): the decay stands beside the gradient, not in it."""

    kind: Literal["adamw"] = "adamw"
    rate: float = setting(5e-4, "learning rate (peak)")
    betas: tuple[float, ...] = setting((0.9, 0.98), "Adam betas: decay rates of the two moments")
    eps: float = setting(1e-9, "Adam epsilon: added to the root of the second moment")
    decay: float = setting(0.01, "weight decay; not applied to norms, biases and other vectors")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "rate", "eps"), not_shares(self, "decay"), not_betas(self.betas))

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return light(torch.optim.AdamW)(
            groups, lr=self.rate, betas=pair(self.betas), eps=self.eps, fused=fusable(groups)
        )


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba (2015); a decay is added to the gradient."""

    kind: Literal["adam"] = "adam"
    rate: float = setting(5e-4, "learning rate (peak)")
    betas: tuple[float, ...] = setting((0.9, 0.98), "Adam betas: decay rates of the two moments")
    eps: float = setting(1e-9, "Adam epsilon: added to the root of the second moment")
    decay: float = setting(0.0, "weight decay, added to the gradient; not applied to norms, biases and other vectors")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "rate", "eps"), not_shares(self, "decay"), not_betas(self.betas))

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return light(torch.optim.Adam)(
            groups, lr=self.rate, betas=pair(self.betas), eps=self.eps, fused=fusable(groups)
        )


@dataclass(frozen=True)
class SGD:
    kind: Literal["sgd"] = "sgd"
    rate: float = setting(0.1, "learning rate (peak)")
    momentum: float = setting(0.9, "momentum")
    decay: float = setting(0.0, "weight decay, added to the gradient; not applied to norms, biases and other vectors")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "rate"), not_shares(self, "momentum", "decay"))

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return light(torch.optim.SGD)(groups, lr=self.rate, momentum=self.momentum, fused=fusable(groups))


@dataclass(frozen=True)
class Adafactor:
    """Shazeer & Stern (2018): the second moment of a matrix from its rows and columns alone."""

    kind: Literal["adafactor"] = "adafactor"
    rate: float = setting(0.01, "learning rate (peak), relative to the scale of each weight")
    decay: float = setting(0.0, "weight decay; not applied to norms, biases and other vectors")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "rate"), not_shares(self, "decay"))

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return light(torch.optim.Adafactor)(groups, lr=self.rate)


Settings = AdamW | Adam | SGD | Adafactor
ALIKE: Mapping[str, float] = MappingProxyType({})


def build_optimizer(settings: Settings, part: nn.Module, rates: Mapping[str, float] = ALIKE) -> torch.optim.Optimizer:
    """Two groups, what decays and what does not; and each again, where some weights are spread over processes, or have
    a share of the rate of their own, by patterns of their names."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {(True, 1.0): [], (False, 1.0): []}
    named = {name: x for name, x in part.named_parameters() if x.requires_grad}
    if idle := [pattern for pattern in rates if not any(fnmatchcase(name, pattern) for name in named)]:
        raise InputError(
            "no weight matches this name", where="train.rates", got=", ".join(idle), expected=some_of(named)
        )
    for name, parameter in named.items():
        share = next((float(x) for pattern, x in rates.items() if fnmatchcase(name, pattern)), 1.0)
        groups.setdefault((decays(parameter), share), []).append(parameter)
    made: list[dict[str, Any]] = [
        {"params": some, "weight_decay": settings.decay if decayed else 0.0, "share": share}
        for (decayed, share), every in groups.items()
        for some in by_place(every)
    ]
    return settings.build(made)


def some_of(names: Iterable[str]) -> str:
    """The first words of all names: what a pattern may begin with."""
    return ", ".join(dict.fromkeys(f"{name.partition('.')[0]}*" for name in names))


def decays(parameter: Tensor) -> bool:
    """A matrix does; norms, biases and whatever else is one vector do not."""
    return sum(size > 1 for size in parameter.shape) > 1


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("share", 1.0)


def state_of(optimizer: torch.optim.Optimizer, part: nn.Module) -> dict[str, Tensor]:
    """What it remembers of each weight: "exp_avg/blocks.0.mixer.q.weight"."""
    return {
        f"{kind}/{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for name, parameter in part.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore_state(optimizer: torch.optim.Optimizer, part: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Exactly what ``state_of`` gave; a weight that is not there is an error."""
    named, fused = dict(part.named_parameters()), optimizer.defaults.get("fused", False)
    optimizer.state.clear()
    for key, value in state.items():
        kind, _, name = key.partition("/")
        if name not in named:
            raise ValueError(f"the optimizer state contains {key!r}, but the model has no such weight")
        optimizer.state[named[name]][kind] = beside(value, named[name], fused or kind != "step")


def beside(value: Tensor, weight: Tensor, near: bool) -> Tensor:
    """Where the weight is, and spread over processes as it is; only a count of steps may stay on the CPU."""
    value = value.to(weight.device) if near else value
    return spread(value, weight) if value.shape == weight.shape and not is_shard(value) else value


def light(kind: Any) -> Any:
    """The same optimizer without PyTorch's compiler, which its wrappers load, a second or two, only to send it away."""
    bare = {name: unwrap(getattr(kind, name)) for name in ("step", "add_param_group", "zero_grad")}
    return type(kind.__name__, (kind,), bare | {"step": torch.no_grad()(bare["step"])})


def fusable(groups: Iterable[Mapping[str, Any]]) -> bool:
    """One kernel for all weights, where PyTorch has one."""
    return all(type(x) is nn.Parameter and x.is_floating_point() for group in groups for x in group["params"])


def pair(betas: tuple[float, ...]) -> tuple[float, float]:
    return betas[0], betas[1]


def not_betas(betas: tuple[float, ...] | None) -> list[str]:
    if betas is None or (len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        return []
    return [f"betas = {list(betas)} must be two numbers from 0 to below 1"]
