"""Documented names that have changed: for one minor version the old ones still work, with a warning."""

import importlib
import warnings
from collections.abc import Mapping


def resolve_renamed(module: str, name: str, names: Mapping[str, str]) -> object:
    """For a module's ``__getattr__``: what an old name stands for, "regard.look.flow.attention_flow"."""
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    place, _, new = names[name].rpartition(".")
    warnings.warn(
        f"{module}.{name} has been renamed to {names[name]}; the old name will be removed after version 0.2",
        DeprecationWarning,
        stacklevel=3,
    )
    found: object = getattr(importlib.import_module(place), new)
    return found
