"""What the reference libraries assume where a config says nothing: their own defaults, frozen for the pinned versions.

An absent key never means our default. The table is written from the references' own classes by
``python -m tests.parity.defaults``, and a test compares it with what is installed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

TABLE = "reference_defaults.json"


@dataclass(frozen=True)
class ReferenceDefaults:
    """The keys that the reference knows for one kind of config, with their defaults, and other names of some keys."""

    keys: Mapping[str, Any]
    aliases: Mapping[str, str] = field(default_factory=dict)


@cache
def reference_table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("regard.interop").joinpath(TABLE).read_text("utf-8"))
    return table


def kind_defaults(model_type: str) -> ReferenceDefaults:
    """Of a kind of transformers."""
    table = reference_table()
    return ReferenceDefaults(table["kinds"][model_type], table["aliases"].get(model_type, {}))


def architecture_defaults(architecture: str) -> ReferenceDefaults:
    """Of ``model_args`` beside the name of an architecture of timm; of an unknown name, nothing."""
    table = reference_table()
    kind, changed = table["timm_architectures"].get(architecture, ["", {}])
    return ReferenceDefaults(table["timm_classes"].get(kind, {}) | changed)


@cache
def pretrained_keys() -> frozenset[str]:
    """The keys of timm's ``pretrained_cfg``, which older folders have in config.json itself."""
    return frozenset(reference_table()["timm_pretrained"])


@cache
def generation_keys() -> frozenset[str]:
    """What a config may say of writing texts: it changes no number that a model computes."""
    return frozenset(reference_table()["generation"])
