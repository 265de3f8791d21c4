"""Configs are frozen dataclasses read from plain data, strictly: every problem is named, nothing is guessed."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

LARGEST = 1 << 40  # no honest size is larger; a lie should fail here, not in an allocation


def parse(kind: type[T], data: Mapping[str, Any]) -> T:
    """Make a config of a mapping. All unknown keys, wrong types and impossible values are reported at once."""
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    problems = []
    for key, value in data.items():
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            problems.append(f"unknown key {shown(str(key))}{hint}")
        elif not fits(value, hints[key]):
            problems.append(f"{key} = {shown(value)} is not {words(hints[key])}")
    for name, field in known.items():
        if name not in data and field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{name} is missing")
    if problems:
        more = [f"and {len(problems) - 100} more"] if len(problems) > 100 else []
        raise ValueError("; ".join([*problems[:100], *more]))
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})


def fits(value: object, hint: Any) -> bool:
    """Whether a value read from JSON or TOML is of the annotated type; numbers must be finite and of sane size."""
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint) and not isinstance(value, bool)
    if origin is tuple:
        inner = get_args(hint)[0]
        return isinstance(value, list | tuple) and all(fits(item, inner) for item in value)
    if hint in (bool, str, NoneType):
        return isinstance(value, hint)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    if hint is float:
        return fits(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping)
    raise TypeError(f"a config cannot have a field of type {hint}")


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def words(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "null"}
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(words(option) for option in get_args(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        return f"a list of {words(get_args(hint)[0])}"
    return names.get(hint, "a table")


def positive(config: object, *names: str) -> None:
    """Refuse a size below 1; one that is not given is none."""
    for name in names:
        size = getattr(config, name)
        if size is not None and size < 1:
            raise ValueError(f"{name} = {size} is not at least 1")


def above_zero(config: object, *names: str) -> None:
    for name in names:
        if not getattr(config, name) > 0:
            raise ValueError(f"{name} = {getattr(config, name)} is not above 0")


def shares(config: object, *names: str) -> None:
    """Refuse a probability outside of 0 <= p < 1."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} = {getattr(config, name)} is not a share from 0 to below 1")


def divides(config: object, part: str, whole: str) -> None:
    if getattr(config, whole) % getattr(config, part):
        raise ValueError(f"{whole} = {getattr(config, whole)} is not a multiple of {part} = {getattr(config, part)}")
