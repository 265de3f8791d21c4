"""The small words with which files from elsewhere are met: refuse, and show nothing of theirs unescaped."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeGuard

from regard.errors import CheckpointError, first_of

MOST_LISTED = 50  # problems of one kind; a foreign file may have as many as it likes


def open_regular(path: Path) -> BinaryIO:
    """Open for reading, but never a pipe or a device, which could block or never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        refuse_file(path, "is not a regular file")
    return open(path, "rb")


def is_plain_name(name: str) -> bool:
    """Whether a name is one file in one folder, on any system."""
    return bool(name) and name not in (".", "..") and not any(x in name for x in "/\\:\0") and name.isprintable()


def is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**63


def quote_name(name: object) -> str:
    """A foreign name, safe to print: in quotes, escaped, and not longer than a line."""
    return ascii(name[:200] if isinstance(name, str) else type(name).__name__)


def problem_lines(problems: Sequence[str], indent: int = 4) -> str:
    """A line for each of the first problems, none without end, and how many more there are."""
    cut = first_of([x if len(x) <= 200 else x[:197] + "..." for x in problems], MOST_LISTED)
    return "".join(f"\n{' ' * indent}{line}" for line in cut)


def list_names(names: list[str]) -> str:
    return ", ".join(first_of([quote_name(name) for name in names]))


def refuse_file(path: Path, reason: str, *, got: str = "", expected: str = "", fix: str = "") -> NoReturn:
    raise CheckpointError(f"{path.name}: {reason}", where=str(path), got=got, expected=expected, fix=fix) from None
