"""One model with each attention, all of the same weights."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.modalities.compared import TrainedSubject
from regard.nn.attention import Mixer
from regard.nn.mechanisms import MECHANISMS, Choice, PickedMechanism, pick_mechanism
from regard.zoo import FAMILIES, empty_net, find_preset

from .report import EXACT


@dataclass(frozen=True)
class Contender:
    """An attention that was asked for."""

    name: str
    choice: Choice
    idea: str


def contenders(choices: list[Choice]) -> list[Contender]:
    """Each once, exact attention first: all are held against it."""
    found: dict[str, Contender] = {}
    for choice in [EXACT, *choices]:
        try:
            picked = pick_mechanism(choice)
        except ValueError as error:
            what, *known = str(error).split("; ")
            hint = [part for part in known if part.startswith("did you mean")]
            expected = f"one of {', '.join(MECHANISMS)}, or all"
            raise InputError(what, expected=expected, fix=hint[0] if hint else "") from None
        name = named(picked)
        found[name] = Contender(name, choice, MECHANISMS[picked.kind].idea)
    return list(found.values())


def named(picked: PickedMechanism) -> str:
    """local, or local window=64 where a setting is not as usual"""
    usual = vars(MECHANISMS[picked.kind].settings())
    changed = [f"{name}={value}" for name, value in vars(picked.settings).items() if value != usual[name]]
    return " ".join([picked.kind, *changed])


@dataclass(frozen=True)
class Nets:
    """Makes nets of one model, at any length and with any attention."""

    model: str
    subject: TrainedSubject
    seed: int

    def build(self, choice: Choice, length: int) -> nn.Module:
        """With random weights, the same ones each time; a ValueError says why it cannot be."""
        family, plain = find_preset(self.model, {})
        _, config = find_preset(self.model, self.subject.changes(plain, length) | {"attention": choice})
        empty_net(family, config)  # refused before memory is used
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return FAMILIES[family].net(config)

    def like(self, choice: Choice, length: int, exact: nn.Module) -> nn.Module:
        """The same, with the weights of the net that attends exactly wherever names and shapes agree.

        They are not copied: both nets hold one and the same memory.
        """
        net = self.build(choice, length)
        theirs = weights(exact)
        for name, weight in weights(net).items():
            if name in theirs and theirs[name].shape == weight.shape:
                weight.data = theirs[name].data
        return net

    def reference(self, choice: Choice, length: int, net: nn.Module, exact: nn.Module) -> nn.Module | None:
        """Whose output a net's is held against: that of exact attention with the same weights. Hashing has no keys of
        its own, so for it that is the same net without hashes."""
        if comparable(net, exact):
            return exact
        if pick_mechanism(choice).kind != "lsh":
            return None
        return self.like({"kind": "lsh", "chunk": 2 * length, "rounds": 1, "buckets": 1}, length, net)


def weights(net: nn.Module) -> dict[str, Tensor]:
    return dict(net.named_parameters())


def comparable(net: nn.Module, exact: nn.Module) -> bool:
    """Whether it has a place for every weight of the net that attends exactly."""
    own = weights(net)
    return all(name in own and own[name].shape == weight.shape for name, weight in weights(exact).items())


def attends(net: nn.Module) -> bool:
    return any(isinstance(module, Mixer) for module in net.modules())


def refusal(error: Exception) -> str:
    """Why an attention cannot be built or run, in one line and without the names that stand before it anyway."""
    text = (error.got or error.what) if isinstance(error, InputError) else str(error)
    text = (text.strip().splitlines() or [type(error).__name__])[0]
    if text.startswith("attention '"):
        text = text.partition("': ")[2]
    expected = isinstance(error, ValueError | NotImplementedError | MemoryError)
    return text if expected else f"failed: {type(error).__name__}: {text}"


def relative(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).norm() / exact.norm())


@torch.inference_mode()
def outputs(subject: TrainedSubject, net: nn.Module, batch: Any) -> Tensor:
    return subject.outputs(net.eval(), batch)
