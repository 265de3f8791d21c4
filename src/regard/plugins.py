"""What others add to the library, from a file or a package of their own, and where each row came from.

>>> regard.register(Mechanism(Plain, build, "what it does"), name="mine")

Rows come from three places: a call of ``register`` in Python, a file that the command line was given (``--plugin
my.py``), and packages that name a module or a function by an entry point in the group ``regard.plugins``. Never from a
model folder, a run file or a config: these are data, and only tell which plug-ins they need.

This file imports nothing of the library but its errors: the tables are found by their places when they are needed.
"""

import importlib
import importlib.util
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from regard.errors import CheckpointError, InputError

GROUP = "regard.plugins"  # of entry points
COLLECTION = ("names", "rows", "cost", "run", "record", "picture")  # what a collection of figures has


@dataclass(frozen=True)
class PluginSource:
    """Origin of a registered row: a file, or a module of a package."""

    name: str  # of the file, or of the distribution
    sha256: str  # of the file's bytes; empty where there is no file, as in a notebook
    version: str = ""  # of the distribution
    path: str = ""

    def data(self) -> dict[str, str]:
        """As a folder records it."""
        return {"name": self.name, "sha256": self.sha256} | ({"version": self.version} if self.version else {})


@dataclass(frozen=True)
class RowKind:
    """What can be registered: its name in a sentence, and the place of its table."""

    what: str
    table: str


# By the type of the row. A row's own module is imported already, since there is a row.
SUBJECTS = {
    "regard.nn.mechanisms.Mechanism": RowKind("attention", "regard.nn.mechanisms:MECHANISMS"),
    "regard.models.family.Family": RowKind("model family", "regard.zoo:FAMILIES"),
    "regard.interop.formats.CheckpointFormat": RowKind("checkpoint table", "regard.interop.formats:CHECKPOINT_FORMATS"),
    "regard.modalities.processor.ProcessorKind": RowKind("processor", "regard.modalities.processors:PROCESSORS"),
    "regard.modalities.run_parts.DataKind": RowKind("kind of data", "regard.modalities.sources:SOURCES"),
    "regard.modalities.run_parts.Goal": RowKind("task", "regard.modalities.goals:GOALS"),
    "regard.modalities.verb.Verb": RowKind("verb", "regard.modalities.verb_table:VERBS"),
    "regard.look.analyses.Analysis": RowKind("analysis", "regard.look.analyses:ANALYSES"),
    "regard.figures.Figure": RowKind("figure", "regard.figures:FIGURES"),
}
SETS = RowKind("collection of figures", "regard.figures:COLLECTIONS")


@dataclass(frozen=True, eq=False)
class Registered:
    """A row that was added."""

    what: str
    name: str
    row: Any
    source: PluginSource
    table: str


REGISTERED: list[Registered] = []
READING: ContextVar[PluginSource | None] = ContextVar("reading", default=None)  # the plug-in that is being loaded
LOADED: dict[Path, PluginSource] = {}  # files that were given, by their full paths
ASKED: list[str] = []  # not empty once the entry points have been read
FAULTS: dict[str, str] = {}  # of the packages that could not be loaded then, by their distributions


def register(row: object, name: str) -> None:
    """Register a row under a new name in the table of its kind. Models, runs, the command line and the web page then
    treat it like a built-in one."""
    subject = subject_of(row)
    refuse_misnamed(row, subject.what, name)
    if subject.what == "model family":
        refuse_unready(row, name)
    try:
        table_at(subject.table).add(name, row)
    except InputError:
        raise
    except ValueError as error:  # of layers, which have no errors of ours
        raise InputError(str(error), got=name) from None
    told = READING.get() or of_caller(caller(sys._getframe(1)).f_globals)
    REGISTERED.append(Registered(subject.what, name, row, told, subject.table))


def subject_of(row: object) -> RowKind:
    found = SUBJECTS.get(f"{type(row).__module__}.{type(row).__qualname__}")
    if found is None and all(callable(getattr(row, word, None)) for word in COLLECTION):
        found = SETS
    if found is None:
        places = [f"{subject.what} ({place})" for place, subject in SUBJECTS.items()]
        raise InputError(
            "objects of this type cannot be registered",
            got=f"an object of type {type(row).__name__}"
            + (" (the class itself, not an instance)" if isinstance(row, type) else ""),
            expected="".join(f"\n    {place}" for place in [*places, f"{SETS.what} (regard.figures.Collection)"]),
            fix="see docs/extending.md",
        )
    return found


def refuse_misnamed(row: Any, what: str, name: str) -> None:
    """A name is a word, and the one that the row itself says, where it says one."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name):
        raise InputError("invalid name", got=repr(name)[:100], expected="letters, digits and . _ + -")
    own = getattr(row, "name", name) if what == "verb" else name
    if what in ("task", "kind of data"):
        own = getattr(row.settings, "kind", None)
    if own != name:
        got, fix = (
            f"{own!r} in the row, {name!r} as the name",
            "declare kind: Literal in the settings of a task or data",
        )
        raise InputError(
            f"the {what} has two different names",
            got=got,
            expected="one name",
            fix=fix if what != "verb" else "",
        )
    if what == "model family":
        taken = [one for one in row.presets if one in table_at("regard.zoo:PRESETS")]
        if taken:
            raise InputError("a model with this name already exists", got=", ".join(taken), fix="choose another name")


def refuse_unready(row: Any, name: str) -> None:
    """A family that names a task must have what the task calls. Of a task that is registered later, `regard contract`
    says so."""
    if unmet := table_at("regard.modalities.net_needs:unmet_needs")(row, row.tasks):
        raise InputError(
            f"the model family {name!r} cannot learn the tasks that it names",
            got="".join(f"\n    {words}" for words in unmet),
            fix="define these, or remove the task from Family(tasks=...); docs/extending.md lists what each task calls",
        )


def table_at(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def forget(source: str) -> None:
    """Unregister everything that the named plug-in has registered, to register it again in a notebook."""
    for one in [one for one in REGISTERED if one.source.name == source]:
        take_back(one)
    for path in [path for path, told in LOADED.items() if told.name == source]:
        del LOADED[path]
        sys.modules.pop(module_name(path), None)


def take_back(one: Registered) -> None:
    rows = table_at(one.table)
    getattr(rows, "rows", rows).pop(one.name, None)
    REGISTERED.remove(one)


def plugin_of(what: str, name: object) -> PluginSource | None:
    """The plug-in that a row came from; None for the library's own."""
    return next((one.source for one in REGISTERED if (one.what, one.name) == (what, name)), None)


def sources() -> list[PluginSource]:
    """All plug-ins that have registered something, or were given."""
    return list(dict.fromkeys([*LOADED.values(), *(one.source for one in REGISTERED)]))


def caller(frame: FrameType) -> FrameType:
    """Who called a public function, which stands behind the one that explains its arguments."""
    while frame.f_globals.get("__name__") == "regard.nn.arguments" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def of_caller(names: Mapping[str, Any]) -> PluginSource:
    """The file that a call of ``register`` stands in."""
    file = names.get("__file__")
    if not isinstance(file, str) or not Path(file).is_file():
        return PluginSource(str(names.get("__name__", "__main__")), "")
    path = Path(file).resolve()
    return PluginSource(path.name, source_digest(path.read_bytes()), path=str(path))


def source_digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


# A file that the user named ----------------------------------------------------------------------


class PluginLoader(SourceFileLoader):
    """Runs the very bytes whose SHA-256 is recorded; a compiled copy beside them is neither read nor written."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self.content = content

    def get_data(self, path: str) -> bytes:
        return self.content

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError("without a time no copy is looked for")


def load_file(path: str | Path) -> PluginSource:
    """Import a file that the user named, once. If it fails, nothing of it stays registered."""
    place = Path(path).expanduser().resolve()
    if place in LOADED:
        return LOADED[place]
    if place.suffix != ".py" or not place.is_file():
        what = "a plug-in must be a .py file" if place.exists() else "plug-in file not found"
        raise InputError(what, where=str(path), expected="a Python file that calls regard.register")
    content = place.read_bytes()
    source, name = PluginSource(place.name, source_digest(content), path=str(place)), module_name(place)
    if any(one.source == source for one in REGISTERED):  # it was imported before, in Python
        return source
    if is_taken(name, place):
        raise InputError(
            "the plug-in has the same name as another module", where=str(path), got=name, fix="rename the file"
        )
    spec = importlib.util.spec_from_loader(name, PluginLoader(name, place, content), origin=str(place))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with reading(source):
        execute(module, place)
    LOADED[place] = source
    return source


def module_name(path: Path) -> str:
    return re.sub(r"\W", "_", path.stem)


def is_taken(name: str, path: Path) -> bool:
    """By a module that stands in another file, or in none."""
    there = sys.modules.get(name)
    if there is None:
        found = importlib.util.find_spec(name)
        origin = None if found is None else found.origin
        return found is not None and (origin is None or Path(origin).resolve() != path)
    file = getattr(there, "__file__", None)
    return file is None or Path(file).resolve() != path


def execute(module: ModuleType, path: Path) -> None:
    name, before, count = module.__name__, sys.modules.get(module.__name__), len(REGISTERED)
    sys.modules[name] = module  # what it registers may be asked for by places such as "my:batches"
    assert module.__spec__ is not None
    assert isinstance(module.__spec__.loader, PluginLoader)
    try:
        module.__spec__.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        for one in REGISTERED[count:]:
            take_back(one)
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise broken(error, path) from error


def broken(error: BaseException, path: Path) -> InputError:
    """What went wrong in a plug-in, and at which of its lines."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == str(path) else line
    where = str(path) if line is None else f"{path}:{line}"
    if isinstance(error, InputError):
        return InputError(error.what, where=error.where or where, got=error.got, expected=error.expected, fix=error.fix)
    told = f"{type(error).__name__}: {error}".splitlines()[0]
    return InputError("the plug-in cannot be loaded", where=where, got=told)


@contextmanager
def reading(source: PluginSource) -> Iterator[None]:
    """Within, what is registered belongs to this plug-in, whichever of its files registers it."""
    token = READING.set(source)
    try:
        yield
    finally:
        READING.reset(token)


# Packages ----------------------------------------------------------------------------------------


def load_installed() -> list[str]:
    """Load what installed packages name, once.  -> of each package that cannot be loaded, a line that says so"""
    if ASKED:
        return []
    ASKED.append(GROUP)  # before the first of them asks a table for a name
    FAULTS.clear()
    lines = []
    for point in package_points():
        try:
            with reading(of_package(point)):
                found = point.load()
                if callable(found):
                    found()
        except Exception as error:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            lines.append(
                f"the plug-in package {package_of(point)} ({point.value}) cannot be loaded and is skipped: {told}"
            )
            FAULTS.setdefault(package_of(point), f"{point.value}: {told}")
    return lines


def load_package(name: str) -> list[PluginSource]:
    """Load what installed packages name, and return where the rows of this one came from: each of its modules that
    registered any. Its name is read as pip reads it."""
    look_further()
    points = [point for point in package_points() if canonical_name(package_of(point)) == canonical_name(name)]
    if not points:
        others = ", ".join(dict.fromkeys(map(package_of, package_points())))
        raise InputError(
            f"no installed package of this name has an entry point in the group {GROUP}",
            got=name,
            expected=others or "a package that registers rows; none is installed",
            fix="install the package; for a file, give its path, such as my.py",
        )
    package = package_of(points[0])
    if package in FAULTS:
        raise InputError("the plug-in package cannot be loaded", where=package, got=FAULTS[package])
    return list(dict.fromkeys(one.source for one in REGISTERED if one.source.name == package))


def package_points() -> list[Any]:
    """The entry points of all installed packages in our group."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda one: one.name)


def package_of(point: Any) -> str:
    """The distribution of an entry point."""
    return str(point.name if point.dist is None else point.dist.name)


def canonical_name(name: str) -> str:
    """One form of all ways in which pip lets one write a name: https://peps.python.org/pep-0503/"""
    return re.sub(r"[-_.]+", "-", name).lower()


def of_package(point: Any) -> PluginSource:
    spec = found_unread(point.module)
    file = "" if spec is None or spec.origin is None else spec.origin
    content = Path(file).read_bytes() if Path(file).is_file() else b""
    version = "" if point.dist is None else point.dist.version
    return PluginSource(package_of(point), source_digest(content) if content else "", version, file)


def found_unread(name: str) -> ModuleSpec | None:
    """Where a module stands, without importing the packages around it: these may register the rows of the plug-in
    before its source is known."""
    top, *inner = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec


def look_further() -> None:
    """For a table that is asked for a name that it does not have."""
    for line in load_installed():
        warnings.warn(line, stacklevel=2)


# What a folder records ---------------------------------------------------------------------------


def require_plugins(recorded: Any, where: str, changed: bool = False) -> None:
    """Refuse until every plug-in that a folder was made with is there, in the same bytes; with ``changed``, other bytes
    of the same name will do."""
    if not isinstance(recorded, list) or not all(is_record(one) for one in recorded):
        expected = "a list of objects with name and sha256"
        raise CheckpointError("invalid list of plug-ins", where=where, got=str(recorded)[:200], expected=expected)
    if not recorded:
        return
    look_further()
    there = sources()
    for one in recorded:
        same = [source for source in there if source.name == one["name"]]
        if (same and changed) or any(source.sha256 == one["sha256"] for source in there):
            continue
        if not same:
            raise missing(one, where)
        raise InputError(
            f"the plug-in {one['name'][:100]} differs from the one recorded here",
            where=where,
            got=f"SHA-256 {same[0].sha256 or '(no file)'}" + (f" of {same[0].path}" if same[0].path else ""),
            expected=f"SHA-256 {one['sha256'][:64] or '(no file)'}",
            fix="restore the original file; for a model, you can record the changed plug-in instead: "
            "regard --plugin PATH convert OLD NEW (then verify the results of NEW)",
        )


def is_record(one: Any) -> bool:
    """Of hostile files, too."""
    if not isinstance(one, dict) or not {"name", "sha256"} <= one.keys() <= {"name", "sha256", "version"}:
        return False
    return all(isinstance(value, str) for value in one.values()) and bool(one["name"])


def missing(one: Mapping[str, str], where: str) -> InputError:
    name, file = one["name"][:100], one["name"].endswith(".py")
    if file:
        fix = f"pass it with regard --plugin PATH/{name} ...; in Python, import it first"
    else:
        fix = f"install it with pip install {name}" + (f"=={one['version'][:50]}" if "version" in one else "")
    return InputError(
        f"the plug-in {name} is required but not loaded",
        where=where,
        expected=f"{name}, SHA-256 {one['sha256'][:64] or '(no file)'}",
        fix=fix,
    )
