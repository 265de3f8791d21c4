"""Errors that a user can act on, all of one form: what, where, got, expected, fix."""

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any


class InputError(ValueError):
    """Invalid input. The command line prints it and exits with 2, without a traceback."""

    def __init__(self, what: str, *, where: str = "", got: str = "", expected: str = "", fix: str = "") -> None:
        self.what, self.where, self.got, self.expected, self.fix = what, where, got, expected, fix
        lines = (("where", where), ("got", got), ("expected", expected), ("fix", fix))
        super().__init__("\n".join([what, *(f"  {name}: {indented(text)}" for name, text in lines if text)]))

    def as_dict(self) -> dict[str, Any]:
        parts = {"what": self.what, "where": self.where, "got": self.got, "expected": self.expected, "fix": self.fix}
        return {name: text for name, text in parts.items() if text}


class Notice(UserWarning):
    """What a user should know of an answer that is given all the same. The command line prints it to stderr."""


def notify(text: str) -> None:
    """Give a notice, as a warning at the place outside of the library that asked for the answer."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "regard":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Notice, stacklevel=level)


def first_of(items: Sequence[str], most: int = 10) -> list[str]:
    """The first items of a list, and how many more there are: a message has a limited length."""
    return [*items[:most], *([f"and {len(items) - most:,} more"] if len(items) > most else [])]


def indented(text: str) -> str:
    """Every line but the first below it, unless it is indented already."""
    return re.sub(r"\n(?! )", "\n    ", text)


class ElsewhereError(Exception):
    """Another process of the same run failed and reports the cause; this process exits silently."""


class CheckpointError(InputError):
    """A checkpoint that cannot be read completely and exactly. Lists every problem by name."""


class ConfigError(InputError):
    """A config with an unknown key, a wrong type or an invalid value."""


class RunFileError(ConfigError):
    """All problems in a run file, also as a list: ``where`` (file:line or the override), ``key``, ``text``."""

    def __init__(self, what: str, problems: Sequence[dict[str, str]], *, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.problems = list(problems)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "problems": self.problems}
