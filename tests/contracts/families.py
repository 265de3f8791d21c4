"""Every family of the zoo in small. One word for one idea in all configs, so a new family needs no new line here."""

import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.nn.mechanisms import MECHANISMS, Choice
from regard.zoo import FAMILIES, bare
from tests.contracts.tools import CHOICES, stirred

SMALL: dict[str, Any] = {
    "vocab": 13,
    "length": 12,
    "dim": 16,
    "depth": 2,
    "heads": 4,
    "hidden": 24,
    "image": 8,
    "patch": 4,
    "tokens": 6,
    "slots": 3,
    "features": 6,
    "token_dim": 16,
    "bands": 3,
    "latents": 5,
    "repeats": 2,
    "cross_heads": 4,
    "cross_hidden": 12,
    "key_dim": 8,
    "value_dim": 12,
    "decoder_heads": 4,
    "decoder_keys": 8,
    "channels": 2,
    "classes": 5,
    "head": "words",
    "head_dim": 4,
    "buckets": 8,
    "farthest": 6,
    "experts": 3,
    "align": 8,
    "maxout": 6,
}


def config(family: str, **changes: Any) -> Any:
    kind = FAMILIES[family].config
    names = [field.name for field in fields(kind)]
    known = {name: SMALL[name] for name in names if name in SMALL}
    return kind(**known | {name: 0.0 for name in names if "drop" in name} | changes)


def net(family: str, **changes: Any) -> nn.Module:
    return stirred(FAMILIES[family].net(config(family, **changes))).eval()


def serves(family: str, key: str, choice: Choice) -> bool:
    """Whether a family takes a mechanism; what it cannot take it refuses."""
    try:
        bare(family, config(family, **{key: choice}))
    except ValueError:
        return False
    return True


# (family, config key, mechanism): "attention" and whatever else in a config picks one
SITES = [
    (family, key, name)
    for family in FAMILIES
    for key in ("attention", "cross")
    if hasattr(config(family), key)
    for name in CHOICES
]
ATTENDING = [family for family in FAMILIES if hasattr(config(family), "attention")]
SERVED = [site for site in SITES if serves(site[0], site[1], CHOICES[site[2]])]
# Families whose blocks are those of another are asked at every quick turn with the first mechanism alone, and the
# variants of mechanisms in three families; all else is for the slow tests.
DERIVED = ("switch", "switchlm", "perceiverlm")
WIDELY = ("gpt", "bert", "transformer")


def by_speed(sites: Sequence[tuple[str, ...]]) -> list[Any]:
    """(family, ..., mechanism), the slow ones marked"""

    def slow(family: str, name: str) -> bool:
        return (family in DERIVED and name != "softmax") or (family not in WIDELY and name not in MECHANISMS)

    return [pytest.param(*site, marks=pytest.mark.slow) if slow(site[0], site[-1]) else site for site in sites]


PADDED = [family for family in FAMILIES if "keys" in inspect.signature(FAMILIES[family].net.forward).parameters]
assert set(MECHANISMS) <= set(CHOICES)


def inputs(family: str, batch: int = 3, n: int = 6) -> dict[str, Tensor]:
    """What the family's forward asks for, by name."""
    small = config(family)
    found: dict[str, Tensor] = {}
    for name, parameter in inspect.signature(FAMILIES[family].net.forward).parameters.items():
        if name == "images":
            found[name] = torch.randn(batch, small.channels, small.image, small.image, dtype=torch.float64)
        elif name != "self" and parameter.default is inspect.Parameter.empty:
            found[name] = torch.randint(small.vocab, (batch, n + len(found)))
    return found


def tensors(output: object) -> dict[str, Tensor]:
    """An output as named tensors, whether it is one or a dataclass of some; a number of the batch is none."""
    if isinstance(output, Tensor):
        return {"": output}
    return {name: x for name, x in vars(output).items() if isinstance(x, Tensor) and x.ndim}
