"""Settings written as a run file: every default stands in it, and each key is explained in a comment.

What is not set stands there as a comment. A file that could not be read again, or would be read as something else, is
never written.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType
from typing import Any, NoReturn, get_args, get_type_hints

from regard.errors import ConfigError
from regard.nn.config import fits_type, literals, show_value

from .runfile import NONE, Parts, default_of, dotted, explanation_of, is_free, kinds, options, read, settled, wanted
from .toml_lines import Path

WIDTH = 120
COLUMN = 28  # where explanations begin, if there is room


def run_file_text(settings: object) -> str:
    """The whole run file of these settings; `read` makes them of it again."""
    kind = type(settings)
    text = "\n".join(table(kind, settings, None, ())).strip("\n") + "\n"
    again = read(kind, text, "the generated run file")
    for one in fields(kind):  # type: ignore[arg-type]
        meant, got = getattr(settings, one.name), getattr(again, one.name)
        if plain(meant) != plain(got):
            raise ConfigError(
                f"a run file cannot represent this value of {one.name}",
                got=show_value(meant),
                expected=f"the value as read back: {got}",
            )
    return text


def plain(value: Any) -> Any:
    """For comparison: whether a list is a list or a tuple does not matter, the kinds of tables do."""
    if is_dataclass(value):
        return type(value), [plain(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def table(kind: type, given: object, base: object, path: Path) -> Iterator[str]:
    """The lines of one table: its values, then the tables in it. Without `given`, all is as in `base`, which is what
    reading begins with; without that, by default."""
    hints = get_type_hints(kind)
    sections = []
    for one in fields(kind):
        hint = hints[one.name]
        default = default_of(one) if base is None else getattr(base, one.name)
        value = default if given is None else getattr(given, one.name)
        if (kinds(hint) or is_free(hint)) and (value is not None or default is None):
            sections.append(section(one, hint, value, default, (*path, one.name)))
        else:
            yield from pair(one, hint, value, default, (*path, one.name))
    for lines in sections:
        yield from lines


def pair(one: "Field[Any]", hint: Any, value: object, default: object, path: Path) -> Iterator[str]:
    """One key with its value and what it means."""
    names = [name for option in options(hint) for name in literals(option)]
    remark = f"one of {', '.join(map(text, names))}" if len(names) > 1 else ""
    if default is not None and NoneType in get_args(hint):
        remark = f"{remark or wanted(hint)}, or {text(NONE)}"
    if value is MISSING or (value is None and default is None):
        yield from explained(f"# {one.name} = ...", explanation_of(one), remark or wanted(hint))
    elif value is None:
        yield from explained(f"{one.name} = {text(NONE)}", explanation_of(one), remark or wanted(hint))
    elif not fits_type(value, hint):
        refuse(path, value, f"is not {wanted(hint)}")
    else:
        yield from explained(f"{one.name} = {literal(settled(value, hint), path)}", explanation_of(one), remark)


def section(one: "Field[Any]", hint: Any, value: Any, default: Any, path: Path) -> Iterator[str]:
    """One table under its name. A table that is not set stands there as a comment, with all that it could say."""
    choices = kinds(hint)
    remark = f"one of {', '.join(map(text, choices))}" if len(choices) > 1 else ""
    yield ""
    yield from comment(f"{explanation_of(one)} (kind: {remark})" if remark else explanation_of(one))
    lines = [f"[{dotted(path)}]"]
    absent = value is None or value is MISSING
    if not choices:
        free = {} if absent else value
        lines += [f"{key(name)} = {literal(item, (*path, name))}" for name, item in free.items()]
    elif absent:
        lines += table(next(iter(choices.values())), None, None, path)
    elif isinstance(value, Parts):
        lines += table(
            type(value.usual), value.usual, default if isinstance(default, type(value.usual)) else None, path
        )
        for part, own in value.own.items():
            base = value.usual if isinstance(value.usual, type(own)) else None
            lines += ["", f"[{dotted((*path, part))}]", *table(type(own), own, base, (*path, part))]
    elif type(value) is choices.get(getattr(value, "kind", "") if len(choices) > 1 else ""):
        lines += table(type(value), value, default if isinstance(default, type(value)) else None, path)
    else:
        refuse(path, value, f"is not a table of {one.name}")
    yield from (f"# {line}" if absent and line and not line.startswith("#") else line for line in lines)


def explained(line: str, explanation: str, remark: str) -> Iterator[str]:
    """A line with its comment behind it, or above it where there is no room."""
    words = " ".join([explanation, f"({remark})"] if remark else [explanation]).strip()
    if words and len(line.ljust(COLUMN)) + len(words) + 4 <= WIDTH:
        line = f"{line.ljust(COLUMN)}  # {words}"
    else:
        yield from comment(words)
    yield line


def comment(words: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(words, WIDTH - 2, break_long_words=False)]


def literal(value: object, path: Path) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float) and math.isfinite(value):
        return float.__repr__(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item, (*path, i)) for i, item in enumerate(value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key(name)} = {literal(item, (*path, name))}' for name, item in value.items())}}}"
    refuse(path, value, "cannot be written in TOML")


def text(value: str) -> str:
    """In quotes, and with nothing in it that an editor would not show."""
    return f'"{"".join(map(escaped, value))}"'


def override_text(name: str, value: object) -> str:
    """A setting that was given in Python as an override of a command line."""
    return f"{name}={text(NONE) if value is None else literal(value, tuple(name.split('.')))}"


def escaped(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def refuse(path: Path, value: object, reason: str) -> NoReturn:
    raise ConfigError(f"{dotted(path)}: {show_value(value)} {reason}")
