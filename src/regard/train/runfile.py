"""The run file: one TOML file, read into frozen dataclasses of settings, strictly.

A table is a dataclass, and each of its fields says in words what it means:

    @dataclass(frozen=True)
    class Train:
        steps: int = setting(1000, "how many updates")
        clip: float | None = setting(1.0, "the largest norm of the gradients")

A field is a value that `regard.nn.config` knows; or a table itself; or one of several tables, told apart by their key
`kind` (`optimizer: AdamW | SGD`); or a free table (`Mapping[str, Any]`), which somebody else checks. What a file does
not say stays as it is by default. Where None is allowed, the text "none" says it: TOML has no word for that.
"""

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date, time
from functools import cached_property
from os import PathLike
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.errors import ConfigError, RunFileError, first_of
from regard.nn.config import (
    MOST_PROBLEMS,
    OF_PLUGIN,
    closest_name,
    describe_misfit,
    fits_type,
    literals,
    own_problems,
    show_value,
    type_words,
)

from .runfile_synonyms import NEEDLESS_KEYS, keys_meant, meant_by_value, remark_on
from .toml_lines import DEEPEST, Path, Scanner, scan

T = TypeVar("T")

BIGGEST = 1 << 20  # bytes of a run file
NONE = "none"  # says that a setting which may be None is None
NOT_HERE = "has no such setting"
OPEN = ("task.kind", "data.kind")  # kinds of which a plug-in may have more
LAST = BIGGEST + 1  # after all lines: what no line but an override is to blame for


def setting(default: T, explanation: str, keys: Callable[[Mapping[str, Any]], Iterable[str]] | None = None) -> T:
    """A field of a table, and what it means; for a free table also the keys that it may have, given what is in it."""
    told = {"help": explanation, "keys": keys}
    if isinstance(default, dict):
        return cast(T, field(default_factory=lambda: dict(default), metadata=told))
    return field(default=default, metadata=told)


def required_setting(explanation: str) -> Any:
    """A field of a table that every run file has to give; in Python it is given by name."""
    return field(kw_only=True, metadata={"help": explanation})


def explanation_of(one: "Field[Any]") -> str:
    return str(one.metadata.get("help", ""))


Defaults = Callable[[Mapping[str, Any]], Mapping[str, Any]]  # of what a file says, other values by default


def no_defaults(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """All is as the dataclasses have it."""
    return {}


def read_file(
    kind: type[T], path: str | PathLike[str], overrides: Sequence[str] = (), defaults: Defaults = no_defaults
) -> T:
    """Read a run file; see `read`."""
    with open(path, "rb") as file:
        content = file.read(BIGGEST + 1)
    return read(kind, decoded(content, str(path)), str(path), overrides, defaults)


def decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{where}:{line}: the file is not valid UTF-8",
            got="UTF-16, as written by some shells with >" if wide else f"byte 0x{content[error.start]:02x}",
            fix="save the file as UTF-8",
        ) from None


def read(kind: type[T], text: str, where: str, overrides: Sequence[str] = (), defaults: Defaults = no_defaults) -> T:
    """Settings from the text of a run file; `where` names it in errors. Overrides (`train.steps=2000`) replace what the
    file says: their values are TOML, or plain text where they are none. `defaults` tells what is not said, where that
    follows from what is. One ConfigError tells all that is wrong."""
    document = load_document(text, where)
    return read_tables(kind, document.data, {**document.lines}, where, overrides, defaults)


def read_tables(
    kind: type[T],
    data: dict[str, Any],
    origins: "dict[Path, int | Override]",
    where: str,
    overrides: Sequence[str] = (),
    defaults: Defaults = no_defaults,
) -> T:
    """The same from what a text says, as plain data; `origins` are the lines of its keys, where it has any."""
    reading = RunFileReader(kind, where, data, origins)
    reading.override(overrides)
    reading.defaults = defaults(data)
    settings = reading.table(kind, data, None, ())
    reading.complain()
    return cast(T, settings)


@dataclass(frozen=True)
class RunDocument:
    data: dict[str, Any]
    lines: dict[Path, int]


def load_document(text: str, where: str) -> RunDocument:
    """What a TOML text says, as plain data, and in which lines."""
    if len(encoded(text, where)) > BIGGEST:
        raise ConfigError(f"{where}: the run file is too large", expected=f"at most {BIGGEST} bytes")
    lines = scan(text, where)  # first: it refuses what tomllib could not bear
    try:
        return RunDocument(tomllib.loads(text), lines)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
        reason, line, column = found.groups() if found else (str(error), None, None)
        line = line or 1 + text.rstrip("\n").count("\n")
        place = f"column {column}" if column else "the end of the file"
        raise ConfigError(f"{where}:{line}: invalid TOML: {reason[:200]} (at {place})") from None


def encoded(text: str, where: str) -> bytes:
    """Refuses what no file can hold, such as the bytes of a command line that were no text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: invalid Unicode text") from None


@dataclass(frozen=True)
class Override:
    """`key=value` of a command line."""

    name: str  # for errors
    path: tuple[str, ...]
    value: Any
    typed: str  # the value as it was typed


def parse_override(text: str) -> Override:
    name = f"override {text if text.isprintable() and len(text) <= 200 else show_value(text)}"
    scanner = Scanner(text, name)
    path = tuple(scanner.key())
    if not path or len(path) > DEEPEST or not scanner.next("="):
        raise ConfigError(f"{name}: expected key=value, such as train.steps=2000")
    typed = text[scanner.at :].strip()
    encoded(text, name)
    try:
        data = load_document(f"value = {typed}", name).data
    except ConfigError as error:
        if typed.strip()[:1] in tuple("\"'[{"):
            reason = re.sub(r" \(at [^()]*\)$", "", error.what.removeprefix(f"{name}:1: "))
            raise ConfigError(f"{name}: {reason}; strings in a list or a table need quotes") from None
        data = {}
    return Override(name, path, data["value"] if len(data) == 1 else typed, typed)


@dataclass(frozen=True)
class Problem:
    line: int  # 0 if no line is to blame
    where: str  # the file and the line, or the override
    key: str
    reason: str

    @property
    def text(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.reason) if part)

    def as_dict(self) -> dict[str, str]:
        return {"where": self.where, "key": self.key, "text": self.reason}


class RunFileReader:
    """One reading of one file: where each key came from, and what is wrong."""

    def __init__(self, kind: type, where: str, data: dict[str, Any], origins: dict[Path, int | Override]) -> None:
        self.kind, self.where, self.data, self.origins = kind, where, data, origins
        self.problems: list[Problem] = []
        self.defaults: Mapping[str, Any] = {}  # of the outermost table

    @cached_property
    def keys(self) -> list[Path]:
        """The keys that this file can have: those of the kinds of task, data and model that it names."""
        return list(every_key(self.kind, self.data))

    def override(self, texts: Sequence[str]) -> None:
        """Change the data as overrides say: first that of a whole table, its kind, then those of settings in it."""
        parsed = []
        for text in texts:
            try:
                parsed.append(parse_override(text))
            except ConfigError as error:
                self.problems.append(Problem(LAST, "", "", error.what))
        for given in sorted(parsed, key=lambda given: len(given.path)):
            self.put(self.data, given)

    def put(self, data: dict[str, Any], given: Override) -> None:
        path = given.path
        self.origins = {known: origin for known, origin in self.origins.items() if known[: len(path)] != path}
        self.origins[path] = given
        for depth, part in enumerate(path[:-1], 1):
            inner = data.setdefault(part, {})
            if isinstance(inner, str):  # the name of a kind, which now gets settings
                inner = data[part] = {"kind": inner}
            if not isinstance(inner, dict):
                self.problem(path, f"{dotted(path[:depth])} is not a table")
                return
            data = inner
        there = data.get(path[-1])
        if isinstance(there, dict) and there.get("kind") == given.value:
            return  # it is of this kind already, and its settings stay
        data[path[-1]] = given.value

    def problem(self, path: Path, text: str, blame: Path | None = None) -> None:
        """Note what is wrong with a key, in the line of this or another key or of the table around it."""
        blame = path if blame is None else blame
        while blame and blame not in self.origins:
            blame = blame[:-1]
        origin = self.origins.get(blame, 0)
        if isinstance(origin, Override):
            line, where = LAST, origin.name
        else:
            line, where = origin, f"{self.where}:{origin}" if origin else self.where
        self.problems.append(Problem(line, where, dotted(path), text))

    def objected(self, path: Path, text: str) -> None:
        """Note what is wrong with a table. It is told of the key that it begins with, or of an override of another key
        beside that one which it speaks of: that is what has just been changed."""
        named = re.match(r"([\w.]+): ", text)
        first = (*path, *re.split(r"[^\w.]", text)[0].split("."))
        beside = [first, *((*first[:-1], word) for word in re.findall(r"\w+", text))]
        given = [key for key in beside if isinstance(self.origins.get(key), Override)]
        blame = given[0] if given else first
        if not path and named:
            self.problem(first, text[named.end() :], blame=blame)
        else:
            self.problem(path, text, blame=blame)

    def complain(self) -> None:
        """One error for all problems, in the order of the file."""
        if self.problems:
            found = sorted(self.problems, key=lambda problem: problem.line)
            lines = [problem.text for problem in found]
            count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
            raise RunFileError(
                "\n".join([f"{self.where}: {count}", *first_of(lines, MOST_PROBLEMS)]),
                [problem.as_dict() for problem in found[:MOST_PROBLEMS]],
                fix=f"run `regard init {self.task()}` to print a run file with every key explained",
            )

    def table(self, kind: type, data: Mapping[str, Any], base: object | None, path: Path) -> object | None:
        """One table. What is not given is as in `base`, or else by default. None if anything is wrong in it."""
        before = len(self.problems)
        hints = get_type_hints(kind)
        known = {one.name: one for one in fields(kind)}
        self.refuse_unknown(data, known, path)
        values = {}
        for name, one in known.items():
            here, hint, count = (*path, name), hints[name], len(self.problems)
            default = default_of(one) if base is None else getattr(base, name)
            default = self.defaults.get(name, default) if not path else default
            value: object = default
            if name in data or (default is MISSING and isinstance(hint, type) and is_dataclass(hint)):
                value = self.value(data.get(name, {}), hint, default, here)
            elif default is MISSING:
                self.problem(here, f"missing: {wanted(hint)}; {explanation_of(one)}".rstrip("; "), blame=path)
            if len(self.problems) == count:
                values[name] = value
            elif NoneType in get_args(hint) and (inner := kinds(hint).get("")) is not None:
                values[name] = unread(inner)
        for objection in own_problems(kind, values, told=len(self.problems) > before):
            self.objected(path, objection)
        return kind(**values) if len(self.problems) == before else None

    def value(self, given: Any, hint: Any, default: object, path: Path) -> object:
        """One value of the type that is asked for; where it is not, a problem and None."""
        choices = kinds(hint)
        if given == NONE and NoneType in get_args(hint) and (choices or not fits_type(given, hint)):
            return None
        if isinstance(hint, PerPart) and isinstance(given, dict):
            return self.parts(choices, given, default, path)
        if choices:
            return self.choice(choices, given, default, path)
        origin = self.origins.get(path)
        if isinstance(origin, Override) and not fits_type(given, hint) and fits_type(origin.typed, hint):
            given = origin.typed  # for a setting that is a text, 2024 is one too
        if isinstance(given, str) and given and not fits_type(given, hint) and fits_type([given], hint):
            given = [given]  # one file, where several could be named
        if not self.plain(given, path):
            return None
        if not fits_type(given, hint):
            names = [name for option in options(hint) for name in literals(option)]
            meant = meant_by_value(dotted(path), given) or closest_name(given, names)
            self.problem(path, f"{show_value(given)} {describe_misfit(given, wanted(hint))}{meant}")
            return None
        if is_free(hint) and isinstance(default, Mapping):
            return {**default, **given}
        return settled(given, hint)

    def choice(self, choices: Mapping[str, type], given: Any, default: object, path: Path) -> object:
        """A table, or that of several which its `kind` names; the name alone stands for all of its defaults."""
        if len(choices) > 1 and isinstance(given, str):
            given = {"kind": given}
        if not isinstance(given, dict):
            self.problem(path, f"{show_value(given)} is not a table")
            return None
        name = given.get("kind", getattr(default, "kind", None)) if len(choices) > 1 else ""
        if not isinstance(name, str) or name not in choices:
            said = "missing:" if name is None else f"{show_value(name)} is not"
            meant = meant_by_value(f"{dotted(path)}.kind", name) or closest_name(name, choices)
            of_plugin = OF_PLUGIN if isinstance(name, str) and not meant and dotted((*path, "kind")) in OPEN else ""
            self.problem((*path, "kind"), f"{said} one of {', '.join(map(repr, choices))}{meant}{of_plugin}")
            known = {one.name for kind in choices.values() for one in fields(kind)}
            for key in [key for key in given if key not in known]:  # valid ones are those of a kind, which is none
                self.problem((*path, key), f"unknown key{self.meant((*path, key), known)}")
            return None
        kind = choices[name]
        return self.table(kind, given, default if isinstance(default, kind) else None, path)

    def parts(self, choices: Mapping[str, type], given: dict[str, Any], default: object, path: Path) -> object:
        """What all parts have in common, and what is different in those that have a table of their own."""
        known = {one.name for kind in choices.values() for one in fields(kind)}
        own = {key: item for key, item in given.items() if isinstance(item, dict) and key not in known}
        base = default.usual if isinstance(default, Parts) else default
        usual = self.choice(choices, {key: x for key, x in given.items() if key not in own}, base, path)
        if not own or usual is None:
            return usual
        before = default.own if isinstance(default, Parts) else {}
        return Parts(
            usual, {part: self.choice(choices, x, before.get(part, usual), (*path, part)) for part, x in own.items()}
        )

    def plain(self, value: object, path: Path) -> bool:
        """Whether JSON and TOML can both hold it: no dates, no endless numbers, at any depth."""
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return all([self.plain(item, (*path, key)) for key, item in items])
        if isinstance(value, date | time):
            self.problem(path, f"{value} is a date or time; put it in quotes to use it as a string")
        elif isinstance(value, float) and not math.isfinite(value):
            self.problem(path, f"{value} is not a finite number")
        elif isinstance(value, int) and abs(value) >= 1 << 63:
            self.problem(path, f"{show_value(value)} is too large")
        else:
            return True
        return False

    def task(self) -> str:
        """The task, if the file names one; run files of each are printed by `regard init`."""
        name = self.name_of("task")
        return name if name and name in kinds(get_type_hints(self.kind).get("task")) else "TASK"

    def refuse_unknown(self, data: Mapping[str, Any], known: Collection[str], path: Path) -> None:
        for key in data:
            if key not in known:
                meant = self.meant((*path, key), known)
                listed = not meant or meant.endswith(NOT_HERE)
                valid = f"; valid keys are {', '.join(known)}" if listed and len(self.problems) < MOST_PROBLEMS else ""
                self.problem((*path, key), f"unknown key{meant}{valid}")

    def meant(self, path: Path, known: Collection[str]) -> str:
        """The key that was perhaps meant, of those that this file can have: what the field calls so, the same in
        another table, or one like it in this."""
        if len(self.problems) >= MOST_PROBLEMS:
            return ""  # nobody will see it
        word, here = str(path[-1]), {dotted(other) for other in self.keys}
        if word.lower() in NEEDLESS_KEYS:
            return f"; not needed: {NEEDLESS_KEYS[word.lower()]}"
        meant = [self.in_part(key, path, known) for key in keys_meant(dotted(path))]
        here |= {dotted((*path[:-1], name)) for name in known}
        if able := [key for key in meant if key in here]:
            return f"; use {able[0]} instead{remark_on(word, able[0])}"
        if elsewhere := [dotted(other) for other in self.keys if other[-1] == word and other != path]:
            return f"; did you mean {elsewhere[0]!r}?"
        others = [dotted(other) for other in every_key(self.kind) if other[-1] == word]
        if dotted(path) in others:
            return f"; {self.owner([dotted(path)])} {NOT_HERE}"
        if meant := list(dict.fromkeys([*meant, *others]))[:3]:
            return f"; {self.owner(meant)} {NOT_HERE} (other kinds have {' or '.join(meant)})"
        return closest_name(word, known)

    def in_part(self, key: str, path: Path, known: Collection[str]) -> str:
        """The same key in the table of a part, if that is where it is missing: optimizer.generator.rate"""
        table, _, name = key.rpartition(".")
        return dotted((*path[:-1], name)) if len(path) > 2 and path[0] == table and name in known else key

    def owner(self, keys: Sequence[str]) -> str:
        """The table of this file in which these keys are missing, by its kind."""
        tables = {key.partition(".")[0] for key in keys}
        name = self.name_of(min(tables)) if len(tables) == 1 else None
        return f"{min(tables)} {show_value(name)}" if name else "this run"

    def name_of(self, table: str) -> str | None:
        """What a table of this file names: one of its kinds, or a model."""
        one = next((one for one in fields(self.kind) if one.name == table), None)
        given = self.data.get(table, {})
        name = None if one is None else kind_named(given, default_of(one))
        name = given.get("name") if name is None and isinstance(given, Mapping) else name
        return name if isinstance(name, str) else None


def unread(kind: type) -> object:
    """A table that is given and cannot be read: other checks see that it is there, and None for all in it."""
    table: object = object.__new__(kind)
    for one in fields(kind):
        object.__setattr__(table, one.name, None)
    return table


def default_of(one: "Field[Any]") -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def options(hint: Any) -> list[Any]:
    """The types that a value may have, but for None."""
    return [
        option
        for option in (get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint])
        if option is not NoneType
    ]


class Kinds(Mapping[str, type]):
    """A type for a field: one table of settings for each row of a table, which says them when it is asked for."""

    def __init__(self, names: Callable[[], Iterator[str]], settings: Callable[[str], type]) -> None:
        self.names, self.settings = names, settings

    def __getitem__(self, name: str) -> type:
        if name not in set(self.names()):
            raise KeyError(name)
        return self.settings(name)

    def __iter__(self) -> Iterator[str]:
        return self.names()

    def __len__(self) -> int:
        return len(list(self.names()))

    def __contains__(self, name: object) -> bool:
        return name in set(self.names())

    __hash__ = object.__hash__


class PerPart:
    """A type for a field: one of several tables, in which there may be one more for each part of a task, under the
    part's name, that says what is different for it: [optimizer.generator]."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint


@dataclass(frozen=True)
class Parts:
    """Settings that are not the same for all parts of a task."""

    usual: Any
    own: Mapping[str, Any]


def settings_of_part(settings: Any, part: str) -> Any:
    return settings.own.get(part, settings.usual) if isinstance(settings, Parts) else settings


def kinds(hint: Any) -> Mapping[str, type]:
    """The tables of settings that a type allows, by the names of their kinds. One alone needs no name."""
    if isinstance(hint, Kinds):
        return hint
    if isinstance(hint, PerPart):
        return kinds(hint.hint)
    tables = [option for option in options(hint) if isinstance(option, type) and is_dataclass(option)]
    if len(tables) == 1:
        return {"": tables[0]}
    return {get_args(get_type_hints(table)["kind"])[0]: table for table in tables}


def is_free(hint: Any) -> bool:
    """Whether a type is a table that may have any keys."""
    return all(
        isinstance(get_origin(option), type) and issubclass(get_origin(option), Mapping) for option in options(hint)
    )


def wanted(hint: Any) -> str:
    return " or ".join(dict.fromkeys(map(type_words, options(hint))))


def settled(value: Any, hint: Any) -> Any:
    """A value that fits, with lists as tuples and whole numbers as floats where the type says so."""
    kind = next(option for option in [*options(hint), NoneType] if fits_type(value, option))
    if get_origin(kind) is tuple:
        return tuple(settled(item, get_args(kind)[0]) for item in value)
    return float(value) if kind is float else value


def kind_named(given: object, default: object) -> object:
    """The kind of a table: what its key ``kind`` says, the name that stands for the table, or that of the default."""
    usual = getattr(default, "kind", None)
    return given.get("kind", usual) if isinstance(given, Mapping) else given


def every_key(kind: type, given: Mapping[str, Any] | None = None, path: Path = ()) -> Iterator[Path]:
    """The keys of a table and of all tables in it; with what is ``given``, of one of several only the kind it names."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        yield (*path, one.name)
        choices, inner = kinds(hints[one.name]), (given or {}).get(one.name, {})
        name = None if given is None else kind_named(inner, default_of(one))
        picked = [choices[name]] if isinstance(name, str) and name in choices else choices.values()
        below = inner if isinstance(inner, Mapping) else {}
        for table in picked:
            yield from every_key(table, None if given is None else below, (*path, one.name))
    for one in fields(kind):  # last: such a key may well be that of another table
        if names := one.metadata.get("keys"):
            inner = (given or {}).get(one.name)
            yield from ((*path, one.name, key) for key in names(inner if isinstance(inner, Mapping) else {}))


def dotted(path: Path) -> str:
    """A path as one would write it, safe to print: model.attention[1].kind"""
    parts = [f"[{part}]" if isinstance(part, int) else f".{quoted(part)}" for part in path]
    return "".join(parts).removeprefix(".")


def quoted(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", part) else show_value(part)
