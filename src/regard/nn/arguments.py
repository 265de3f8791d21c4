"""Keyword arguments in the field's other words: the error of Python names the one that is meant.

>>> model.translate("Hello.", num_beams=4)
TypeError: Model.translate() has no argument 'num_beams': use decoding=Decoding(beam=Beam(beams=...))
"""

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import ParamSpec, TypeVar

from .synonyms import ARGUMENT_SYNONYMS, NEEDLESS_ARGUMENTS

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)
EXPLAINED: set[Callable[..., object]] = set()  # whose hint stays


def argument_meant(word: str, known: Collection[str]) -> str:
    """What to do instead where these arguments are known; empty where the word means none of them."""
    for path, words in ARGUMENT_SYNONYMS.items():
        names = path.split(".")
        if word.lower() not in (*words, names[-1]):
            continue
        for i, name in enumerate(names):
            if name in known:
                return f"use {written(names[i:])}"
    return ""


def written(names: list[str]) -> str:
    """beam, beams: as beam=Beam(beams=...)"""
    name, *inner = names
    return f"{name}={name.capitalize()}({written(inner)})" if inner else f"{name}=..."


def explain_arguments(
    function: Callable[P, R], hint: Callable[[str, Collection[str]], str] = argument_meant
) -> Callable[P, R]:
    """The function, which says what is meant by an argument that it does not have, as far as ``hint`` knows."""
    parameters = inspect.signature(function).parameters
    if function in EXPLAINED or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return function
    known = [name for name in parameters if name != "self"]

    def told(word: str) -> str:
        meant = hint(word, known)
        needless = NEEDLESS_ARGUMENTS.get(function.__qualname__, {}).get(word.lower(), "")
        fix = meant or needless or f"its arguments are {', '.join(known)}"
        return f"{function.__qualname__}() has no argument {word!r}: {fix}"

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        if unknown := [word for word in named if word not in known]:
            raise TypeError("\n".join(told(word) for word in unknown))
        return function(*args, **named)

    EXPLAINED.add(called)
    return called


def explain_methods(cls: Class) -> Class:
    """The class, whose public methods and whose constructor do so."""
    for name, function in list(vars(cls).items()):
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, explain_arguments(function))
    return cls
