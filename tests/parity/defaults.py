"""What the reference libraries assume where a config says nothing, read from their own classes.

``python -m tests.parity.defaults`` writes the table that regard ships; a test compares it with what is installed.
"""

import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from regard.interop import cait, defaults, levit, mixer, timm_swin, timm_vit, volo
from regard.interop.exporting import READ_ONLY
from regard.interop.formats import CHECKPOINT_FORMATS
from tests.parity.theirs import transformers

TIMM_MODULES = ("vision_transformer", "deit", "swin_transformer", "swin_transformer_v2", "cait", "volo", "mlp_mixer")
TIMM_MODULES += ("levit",)
ARCHITECTURES = [*timm_vit.SIZES, *timm_vit.TWO_TOKENS, *timm_swin.NAMES, *timm_swin.SECOND_NAMES]
ARCHITECTURES += [*cait.SIZES, *volo.SIZES, *mixer.SIZES, *levit.NAMES]


def reference_defaults() -> dict[str, Any]:
    """The whole table."""
    known = transformers.CONFIG_MAPPING
    kinds = [
        name
        for name in [*CHECKPOINT_FORMATS, "timm_backbone", "clip_vision_model"]
        if name in known and name not in READ_ONLY
    ]
    found: dict[str, Any] = {
        "transformers": version("transformers"),
        "timm": version("timm"),
        "generation": sorted(transformers.GenerationConfig._get_default_generation_params()),
        "kinds": {name: key_defaults(known[name]) for name in kinds},
        "aliases": {name: dict(known[name].attribute_map) for name in kinds if known[name].attribute_map},
        **timm_defaults(),
    }
    return json.loads(json.dumps(found))  # a tuple is a list in a file


def key_defaults(config: type) -> dict[str, Any]:
    """The keys of a config class with their defaults, but for what all kinds share."""
    shared = {field.name for field in fields(transformers.PreTrainedConfig)}
    own = [x for x in fields(config) if x.name not in shared and not x.name.startswith("_out_")]
    return {x.name: x.default for x in own if x.default is not MISSING}


def timm_defaults() -> dict[str, Any]:
    """Of each class the arguments, and of each architecture its class and what it changes."""
    registry = importlib.import_module("timm.models")
    classes: dict[str, type] = {}
    architectures: dict[str, list[Any]] = {}
    for name in ARCHITECTURES:
        made, settings = built(lambda name=name: registry.model_entrypoint(name)())
        classes[made.__name__] = made
        changed = {key: value for key, value in settings.items() if key in arguments_of(made)}
        architectures[name] = [made.__name__, changed]
    arguments = {name: constructor(made) for name, made in sorted(classes.items())}
    pretrained = sorted(field.name for field in fields(registry.PretrainedCfg))
    return {"timm_pretrained": pretrained, "timm_classes": arguments, "timm_architectures": architectures}


def built(make: Callable[[], object]) -> tuple[type, dict[str, Any]]:
    """What an entry point of timm would build: the class, and the arguments."""
    calls: list[tuple[type, dict[str, Any]]] = []

    def note(made: type, variant: str, pretrained: bool = False, **settings: Any) -> None:
        calls.append((made, settings))

    modules = [importlib.import_module(f"timm.models.{name}") for name in TIMM_MODULES]
    patches = [patch.object(module, "build_model_with_cfg", note) for module in modules]
    for one in patches:
        one.start()
    try:
        make()
    finally:
        for one in patches:
            one.stop()
    return calls[0]


def arguments_of(made: type) -> set[str]:
    """The names of all arguments, those of the classes above included."""
    return {name for owner in made.__mro__ for name in inspect.signature(owner.__init__).parameters}  # type: ignore[misc]


def constructor(made: type) -> dict[str, Any]:
    """The arguments that have a default, those of the class above included where they are passed on. What no file can
    say, such as a function, is left out."""
    found: dict[str, Any] = {}
    for owner in made.__mro__:
        taken = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        plain = {x.name: x.default for x in taken if x.default is not inspect.Parameter.empty}
        found = {key: value for key, value in plain.items() if not callable(value)} | found
        if not any(x.kind is inspect.Parameter.VAR_KEYWORD for x in taken):
            break
    return found


def written(table: dict[str, Any]) -> str:
    """A line for each kind, so that a change of the reference is easy to see."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"    {json.dumps(name)}: {json.dumps(x)}" for name, x in value.items())
            lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(defaults.__file__).with_name(defaults.TABLE).write_text(written(reference_defaults()), "utf-8")
