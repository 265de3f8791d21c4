"""Every family of the zoo in small. One word for one idea in all configs, so a new family needs no new line here."""

import inspect
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, get_origin, get_type_hints

import pytest
from torch import Tensor, nn

from regard.contracts import families as shared
from regard.contracts.families import tensors, words  # noqa: F401 (for those who ask all families)
from regard.nn.mechanisms import MECHANISMS
from regard.zoo import FAMILIES
from tests.contracts.tools import CHOICES, refuses, stirred

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
    "width": 6,
    "stem": "small",
    "layer": "basic",
    "depths": (1, 2),
    "dims": (8, 12),
    "nonlocals": (2,),
    "queries": 5,
    "stem_dim": 6,
    "fine_dim": 12,
    "outlookers": 2,
    "fine_heads": 4,
    "fine_hidden": 10,
    "horizon": 4,
    "kernel": 3,
    "noise": 8,
    "bound": "none",  # or what it makes could not be any number
    "text_dim": 16,
    "text_depth": 2,
    "text_heads": 4,
    "text_hidden": 24,
}
OWN = {
    "volo": {"image": 24},  # of whose tokens four become one
    "unet": {"multipliers": (1, 2), "attended": (0, 1), "norm_groups": 4, "context": 6},
    "diffusion": {
        "text": {"dim": 8, "depth": 1, "heads": 2, "hidden": 12},
        "denoiser": {
            "kind": "unet",
            "dim": 8,
            "multipliers": [1, 2],
            "depth": 1,
            "attended": [0, 1],
            "heads": 2,
            "norm_groups": 4,
        },
        "autoencoder": {"latent": 2, "dim": 8, "multipliers": [1, 2], "depth": 1, "scale": 1.0, "norm_groups": 4},
        "times": 10,
    },
    "autoencoder": {"multipliers": (1, 2), "norm_groups": 4, "latent": 4, "scale": 1.0},
}


STAGES = 2  # of families whose sizes are told stage by stage


hints = cache(get_type_hints)  # of a config; to evaluate them for every key of every net takes seconds


def staged(family: str, name: str) -> bool:
    """Whether a size, here the same for all stages, has a value for each."""
    return isinstance(SMALL.get(name), int) and get_origin(hints(FAMILIES[family].config).get(name)) is tuple


def config(family: str, **changes: Any) -> Any:
    kind = FAMILIES[family].config
    names = [field.name for field in fields(kind)]
    known = {name: SMALL[name] for name in names if name in SMALL} | OWN.get(family, {})
    known |= {name: 0.0 for name in names if "drop" in name} | changes
    every = {name: (x,) * STAGES for name, x in known.items() if staged(family, name) and isinstance(x, int)}
    return kind(**known | every)


def net(family: str, **changes: Any) -> nn.Module:
    return stirred(FAMILIES[family].net(config(family, **changes))).eval()


# What a site asks of a mechanism, in the words of REFUSES.
ASKED: dict[tuple[str, str], list[str]] = {
    ("gpt", "attention"): ["causal"],
    ("switchlm", "attention"): ["causal"],
    ("cliptext", "attention"): ["causal"],
    ("reformer", "attention"): ["causal"],
    ("transformer", "attention"): ["causal", "length"],
    ("t5", "attention"): ["causal", "bias", "length"],
    ("switch", "attention"): ["causal", "bias", "length"],
    ("captioner", "attention"): ["causal", "length"],
    ("transformer", "cross"): ["context", "length"],
    ("captioner", "cross"): ["context", "length"],
    ("t5", "cross"): ["context", "length"],
    ("switch", "cross"): ["context", "length"],
    ("forecaster", "attention"): ["causal", "length"],
    ("forecaster", "cross"): ["context", "length"],
    ("unet", "cross"): ["context", "length"],
    ("rnn", "attention"): ["context", "length"],
    ("swin", "attention"): ["bias"],
    ("swinv2", "attention"): ["bias"],
    ("levit", "attention"): ["bias"],
    ("transgan", "attention"): ["bias"],
}
# (family, config key, mechanism): "attention" and whatever else in a config picks one
SITES = [
    (family, key, name)
    for family in FAMILIES
    for key in ("attention", "cross")
    if hasattr(config(family), key)
    for name in CHOICES
]
ATTENDING = [family for family in FAMILIES if hasattr(config(family), "attention")]
# By these words and without a net; that nets agree is a contract. What a family cannot take it refuses.
SERVED = [site for site in SITES if not refuses(site[2], *ASKED.get(site[:2], []))]
# Three families are asked at every quick turn with all mechanisms, the others with one of each kind, and families whose
# blocks are those of another with the first alone; all else, and variants of a mechanism, is for the slow tests.
WIDELY = ("gpt", "bert", "transformer")
KINDS = ("softmax", "additive", "local", "linformer", "performer", "lsh", "synthesizer", "fourier", "workspace")
DERIVED = (
    "switch",
    "switchlm",
    "perceiverlm",
    "swinv2",
    "levit",
    "deit",
    "cait",
    "volo",
    "captioner",
    "forecaster",
    "transgan",
    "clip",
)


def by_speed(sites: Sequence[tuple[str, ...]]) -> list[Any]:
    """(family, ..., mechanism), the slow ones marked"""

    def slow(family: str, name: str) -> bool:
        return name not in (MECHANISMS if family in WIDELY else ("softmax",) if family in DERIVED else KINDS)

    return [pytest.param(*site, marks=pytest.mark.slow) if slow(site[0], site[-1]) else site for site in sites]


MASKED = [family for family in FAMILIES if "keys" in inspect.signature(FAMILIES[family].net.forward).parameters]
PADDED = [family for family in MASKED if "text" in FAMILIES[family].takes]  # of series: tests/series/test_nets.py
assert set(MECHANISMS) <= set(CHOICES)


def inputs(family: str, batch: int = 3, n: int = 6) -> dict[str, Tensor]:
    """What the family's forward asks for, by name."""
    return shared.inputs(FAMILIES[family], config(family), batch, n)
