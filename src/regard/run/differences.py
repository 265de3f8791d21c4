"""What is different between two runs, setting by setting."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from regard.train.runfile import NONE, Parts

from .settings import RunSettings

MISSING = "nothing"


def changed_settings(one: RunSettings, two: RunSettings) -> dict[str, tuple[str, str]]:
    """The settings that are not the same, by their names in a run file, as both have them. Where epochs are given,
    steps follow from them."""
    here, there = flat_settings(one, ""), flat_settings(two, "")
    if one.train.epochs is not None and two.train.epochs is not None:
        here["train.steps"] = there["train.steps"]
    names = [name for name in {**here, **there} if here.get(name, MISSING) != there.get(name, MISSING)]
    return {name: (here.get(name, MISSING), there.get(name, MISSING)) for name in names}


def flat_settings(value: Any, name: str) -> dict[str, str]:
    """Every setting of a table and of all tables in it, in words."""
    if isinstance(value, Parts):
        inner: dict[str, Any] = {**flat_table(value.usual), **value.own}
    elif is_dataclass(value) and not isinstance(value, type):
        inner = flat_table(value)
    elif isinstance(value, Mapping):
        inner = dict(value)
    else:
        return {name: words(value)}
    below = [flat_settings(item, f"{name}.{part}".strip(".")) for part, item in inner.items()]
    return {key: told for settings in below for key, told in settings.items()}


def flat_table(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


def words(value: Any) -> str:
    """Whether a list is a list or a tuple does not matter."""
    return NONE if value is None else repr(list(value)) if isinstance(value, tuple) else repr(value)
