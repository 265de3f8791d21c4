"""What a model is, where it only begins with the settings of a named one."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.zoo import FAMILIES, PRESETS

OF_DATA = ("vocab", "classes", "length")  # sizes of what comes in and goes out: the name stays right


def other_sizes(name: str, changes: Mapping[str, Any]) -> list[str]:
    """The sizes that are not those of the model of this name."""
    preset = FAMILIES[PRESETS[name]].presets[name]
    named = {key: getattr(preset, key, None) for key in changes if key not in OF_DATA}
    return [key for key, size in named.items() if is_size(changes[key]) and plain(changes[key]) != plain(size)]


def is_size(value: Any) -> bool:
    return type(value) is int or (isinstance(value, list | tuple) and all(type(one) is int for one in value))


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def title(family: str, name: str, parameters: str, sizes: Sequence[str]) -> str:
    """ "vit, 456.4k parameters, from vit-base with other sizes (dim, depth)" """
    if sizes:
        return f"{family}, {parameters} parameters, from {name} with other sizes ({', '.join(sizes)})"
    return f"{name}, {parameters} parameters"
