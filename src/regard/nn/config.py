"""Configs are frozen dataclasses read from plain data, strictly: every problem is named, nothing is guessed."""

import math
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .synonyms import meant_by_activation, meant_in_model

T = TypeVar("T")

# Of most models: who writes one of them to a model that has none means no other key that looks like it.
STANDARD_KEYS = ("dim", "depth", "heads", "length", "vocab", "classes", "hidden", "image", "patch", "channels")
LARGEST = 1 << 40  # no honest size is larger; a lie should fail here, not in an allocation
LIKE = 0.74  # how like a name must be, to be suggested
MOST_PROBLEMS = 100  # problems that need not all be told
OF_PLUGIN = "; if it is a plug-in's, give its file with --plugin, or import it first in Python"
PLURALS = {int: "integers", float: "numbers", str: "strings"}


def parse(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build a config from a mapping. All unknown keys, wrong types and invalid values are reported in one error."""
    known = fields(kind)  # type: ignore[arg-type]
    defaults = {field.name: field.default for field in known if field.default is not MISSING}
    defaults |= {field.name: field.default_factory() for field in known if field.default_factory is not MISSING}
    missing = [f"{field.name} is missing" for field in known if field.name not in defaults.keys() | data.keys()]
    refuse(config_problems(kind, defaults | dict(data)), missing)
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})


def config_problems(kind: type, data: Mapping[str, Any]) -> list[str]:
    """List the problems of the given keys."""
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    problems, read = [], {}
    for key, value in data.items():
        if key not in known:
            hint = (
                meant_in_model(str(key), known)
                or closest_name(str(key), () if key in STANDARD_KEYS else known)
                or f"; valid keys are {', '.join(known)}"
            )
            problems.append(f"unknown key {show_value(str(key))}{hint}")
        elif not fits_type(value, hints[key]):
            problems.append(
                f"{key} = {show_value(value)} {describe_misfit(value, type_words(hints[key]))}"
                + closest_name(value, literals(hints[key]))
            )
        else:
            read[key] = value
    return problems + own_problems(kind, read, told=bool(problems))


def own_problems(kind: type, values: Mapping[str, Any], told: bool) -> list[str]:
    """What the checks of ``kind`` itself say of these values. To them, all others are None; a check that cannot live
    with that is left out if the user was ``told`` of a value that could not be read."""
    config: object = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(config, field.name, values.get(field.name))
    try:
        getattr(config, "__post_init__", lambda: None)()
    except ValueError as error:
        return str(error).split("\n")
    except (TypeError, AttributeError):
        if not told:
            raise
    return []


def refuse(*checks: list[str]) -> None:
    """Raise one ValueError that lists all problems, one per line, if there are any."""
    problems = [problem for check in checks for problem in check]
    if problems:
        more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
        raise ValueError("\n".join([*problems[:MOST_PROBLEMS], *more]))


def closest_name(word: object, known: Collection[str]) -> str:
    """A hint with the closest valid name, in capitals or not, or an empty string."""
    names = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), names, 1, LIKE) if isinstance(word, str) else []
    return f"; did you mean {names[found[0]]!r}?" if found else ""


def literals(hint: Any) -> list[str]:
    return [text for text in get_args(hint) if isinstance(text, str)] if get_origin(hint) is Literal else []


def fits_type(value: object, hint: Any) -> bool:
    """Whether a value read from JSON or TOML is of the annotated type; numbers must be finite and of sane size."""
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits_type(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint) and not isinstance(value, bool)
    if origin is tuple:
        inner = get_args(hint)[0]
        return isinstance(value, list | tuple) and all(fits_type(item, inner) for item in value)
    if hint in (bool, str, NoneType):
        return isinstance(value, hint)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    if hint is float:
        return fits_type(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping)
    raise TypeError(f"a config cannot have a field of type {hint}")


def describe_misfit(value: object, wanted: str) -> str:
    """Describe why a value has the wrong type."""
    large = isinstance(value, int) and abs(value) > LARGEST
    return "is too large" if large else f"is not {wanted}"


def show_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def type_words(hint: Any) -> str:
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false", NoneType: "null"}
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(type_words(option) for option in get_args(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        return f"a list of {PLURALS.get(get_args(hint)[0], 'values, each ' + type_words(get_args(hint)[0]))}"
    return names.get(hint, "a table")


# What a config's ``__post_init__`` hands to ``refuse``: lists of problems. None, a value that is not given or could not
# be read, is none of them.


def not_positive(config: object, *names: str) -> list[str]:
    return not_at_least(1, config, *names)


def not_at_least(least: int, config: object, *names: str) -> list[str]:
    """A tuple is of sizes, one for each stage, at least one."""
    return [
        f"{name} = {size} must be at least {least}"
        for name in names
        if (size := getattr(config, name)) is not None and not min(stage_sizes(size), default=least - 1) >= least
    ]


def stage_sizes(size: Any) -> tuple[int, ...]:
    """The sizes of all stages."""
    return tuple(size) if isinstance(size, tuple | list) else (size,)


def not_above_zero(config: object, *names: str) -> list[str]:
    return [
        f"{name} = {value} must be greater than 0"
        for name in names
        if (value := getattr(config, name)) is not None and not value > 0
    ]


def not_finite(config: object, *names: str) -> list[str]:
    return [
        f"{name} = {value} must be finite"
        for name in names
        if (value := getattr(config, name)) is not None and math.isinf(value)
    ]


def not_shares(config: object, *names: str) -> list[str]:
    """Problems of probabilities, such as dropout: 0 <= p < 1 is required."""
    return [
        f"{name} = {value} must be at least 0 and less than 1"
        for name in names
        if (value := getattr(config, name)) is not None and not 0 <= value < 1
    ]


def not_divided(config: object, whole: str, part: str) -> list[str]:
    """Problems of a size that must be a multiple of another; values below 1 are reported by ``not_positive``.

    Of several stages, one whole for all is that of the first, and doubles from each to the next.
    """
    many, few = getattr(config, whole), getattr(config, part)
    if many is None or few is None or min((*stage_sizes(many), *stage_sizes(few))) < 1:
        return []
    parts = stage_sizes(few)
    wholes = stage_sizes(many) if isinstance(many, tuple | list) else [many * 2**stage for stage in range(len(parts))]
    if all(one % other == 0 for one, other in zip(wholes, parts, strict=False)):
        return []
    return [f"{whole} = {many} is not a multiple of {part} = {few}"]


def not_same_stages(config: object, *names: str) -> list[str]:
    """Problems of per-stage sizes (tuples) that differ in their number of stages."""
    found = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    if len({len(sizes) for sizes in found.values()}) < 2:
        return []
    told = ", ".join(f"{name} = {list(sizes)}" for name, sizes in found.items())
    return [f"{told} must have the same number of stages"]


def not_one_of(known: Collection[str], config: object, *names: str) -> list[str]:
    given = {name: getattr(config, name) for name in names}
    wrong = {name: word for name, word in given.items() if word is not None and word not in known}
    hints = {name: meant_by_activation(word) or closest_name(word, known) for name, word in wrong.items()}
    return [f"{name} = {show_value(x)} is not one of {', '.join(known)}{hints[name]}" for name, x in wrong.items()]


# The same, for a config that makes one check: they raise.


def positive(config: object, *names: str) -> None:
    refuse(not_positive(config, *names))


def above_zero(config: object, *names: str) -> None:
    refuse(not_above_zero(config, *names))


def shares(config: object, *names: str) -> None:
    refuse(not_shares(config, *names))
