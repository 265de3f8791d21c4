"""What ``regard.train`` was asked for, as settings of a run: the tables of a run file, from a file or from Python."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from regard.data.given_datasets import is_dataset
from regard.data.given_tables import as_settings
from regard.errors import InputError
from regard.modalities.goals import GOALS, batch_maker
from regard.modalities.media import MEDIA
from regard.modalities.run_parts import Template
from regard.modalities.sources import SOURCES
from regard.modalities.verbs import verb_function
from regard.nn.arguments import argument_meant, explain_arguments
from regard.run.prolonging import CHANGEABLE
from regard.run.settings import RunSettings, settings_of
from regard.run.templates import all_templates
from regard.run.training import find_run, locate_models
from regard.train.runfile import decoded, load_document
from regard.train.runfile_synonyms import RUN_SYNONYMS, keys_meant
from regard.zoo import FAMILIES, PRESETS

from .stored import Given, settings_in_files

P = ParamSpec("P")
R = TypeVar("R")
WHERE = "regard.train"


@dataclass(frozen=True, eq=False)
class AskedRun:
    """A run that can begin. Its data still stands in memory where it was ``given`` so."""

    tables: dict[str, Any]
    folder: Path
    base: Path
    where: str
    given: Given


def explain_settings(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which says by which setting another keyword argument is meant."""
    return explain_arguments(function, setting_meant)


def explain_changes(function: Callable[P, R]) -> Callable[P, R]:
    """The same of one that goes on with a run, and takes the settings that may change then."""
    return explain_arguments(function, change_meant)


def setting_meant(word: str, known: Collection[str]) -> str:
    keys = settings_meant(word)
    return f"use {' or '.join(map(as_setting, keys))}" if keys else argument_meant(word, known)


def change_meant(word: str, known: Collection[str]) -> str:
    keys = settings_meant(word)
    if able := [key for key in keys if key in CHANGEABLE]:
        return f"use {' or '.join(map(as_setting, able))}"
    if not keys or argument_meant(word, known):
        return argument_meant(word, known)
    return f"a run that has begun keeps {' and '.join(keys)}; train a new run to change it"


def settings_meant(word: str) -> list[str]:
    return keys_meant(word) or [key for key in RUN_SYNONYMS if key.endswith(f".{word}")]


def as_setting(key: str) -> str:
    return f"settings={{{key!r}: ...}}"


def run_asked(
    run: str | PathLike[str] | Mapping[str, Any],
    data: Any,
    *,
    task: str | Mapping[str, Any],
    model: str | Mapping[str, Any],
    start: str | Mapping[str, Any],
    folder: str | PathLike[str],
    seed: int | None,
    settings: Mapping[str, Any],
) -> AskedRun:
    """All arguments as one table of tables; what is given beside ``run`` replaces what that says."""
    tables, base, where, name = beginning(run)
    for key, value in {"task": task, "model": model, "start": start}.items():
        if value:
            named = {"task": "kind", "model": "name", "start": "model"}[key]
            tables[key] = {named: value} if isinstance(value, str) else as_settings(value)
    if seed is not None:
        tables["seed"] = seed
    for key, value in settings.items():
        put(tables, key, value)
    kind = task_of(tables)
    said = tables.get("data") or {}
    before: dict[str, Any] = {"kind": said} if isinstance(said, str) else dict(said)
    filed = {} if isinstance(run, Mapping) else before  # in a run file, all are files
    told = {**({} if filed else before), **data_table(data)}
    given, asked = Given(), {**filed, **told}
    if asked:
        asked["kind"] = asked.get("kind") or kind_of_data(kind, asked, tables)
        told, given = settings_in_files(SOURCES[asked["kind"]], told)
        tables["data"] = {**filed, **told, "kind": asked["kind"]}
    with_template(tables, kind, str(asked.get("kind", "")), given)
    place = Path(folder).expanduser() if folder else Path(tables.get("folder") or Path("runs") / (name or kind))
    tables["folder"] = str(place)
    return AskedRun(tables, place.resolve(), base, where, given)


def beginning(run: str | PathLike[str] | Mapping[str, Any]) -> tuple[dict[str, Any], Path, str, str]:
    """The tables that all begins with, where relative paths begin, what errors are told of, and a name."""
    if isinstance(run, Mapping):
        return {str(key): as_settings(value) for key, value in run.items()}, Path(), WHERE, ""
    name = str(run)
    if name in all_templates() and not Path(name).exists():
        row = all_templates()[name]
        return {"task": {"kind": row.task.kind}} | ({"template": name} if row.start else {}), Path(), WHERE, name
    if not name:
        return {}, Path(), WHERE, ""
    path = find_run(name)
    document = load_document(decoded(path.read_bytes(), str(path)), str(path))
    return copy.deepcopy(document.data), path.parent, str(path), path.stem


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """train.steps = 500"""
    *outer, last = key.split(".")
    for name in outer:
        inner = tables.setdefault(name, {})
        if isinstance(inner, str):
            inner = tables[name] = {"kind": inner}
        if not isinstance(inner, dict):
            raise InputError(f"settings: {key} is not in a table", got=repr(inner)[:100])
        tables = inner
    tables[last] = as_settings(value)


def task_of(tables: Mapping[str, Any]) -> str:
    given = tables.get("task")
    kind = given.get("kind") if isinstance(given, Mapping) else given
    if not isinstance(kind, str) or kind not in GOALS:
        fix = 'name one, such as regard.train("classify", data)'
        raise InputError("no task", got=repr(kind), expected=", ".join(all_templates()), fix=fix)
    return kind


def data_table(data: Any) -> dict[str, Any]:
    """The [data] table: what is given, or a dict that names its splits and other settings."""
    if data is None:
        return {}
    if isinstance(data, Mapping) and data.keys() & {"train", "files", "kind"}:
        return {str(key): value for key, value in data.items()}
    return {"train": data}


def kind_of_data(task: str, asked: dict[str, Any], tables: Mapping[str, Any]) -> str:
    """The kind of data that serves the task and is what was given."""
    names = batch_maker(task)
    given = next((asked[key] for key in ("train", "files") if key in asked), None)
    live = is_dataset(given, "data.train")
    served = [name for name in names if (SOURCES[name].describe if live else SOURCES[name].paths)]
    medium = medium_of(given, tables, [medium for name in served for medium in SOURCES[name].media])
    able = [name for name in served if medium in SOURCES[name].media] or served
    if not able:
        got, expected = type(given).__name__, ", ".join(names)
        raise InputError(f"the task {task!r} cannot be trained on such data", got=got, expected=expected)
    return able[0]


def medium_of(given: Any, tables: Mapping[str, Any], media: Sequence[str]) -> str:
    """What is given: what the model that is named takes, or the medium by which it is recognized."""
    model = tables.get("model")
    family = PRESETS.get(str(model.get("name"))) if isinstance(model, Mapping) else None
    if family is not None:
        return FAMILIES[family].takes[0]
    known = [name for name in media if (place := MEDIA[name].recognize) and verb_function(place)(given)]
    return next(iter([*known, *(name for name in media if not MEDIA[name].recognize)]), "")


def with_template(tables: dict[str, Any], task: str, kind: str, given: Given) -> None:
    """Where no model is named, that of the task's template, and what else the template says of such data."""
    name = tables.pop("template", "")
    rows = list(GOALS[task].templates.values())
    alike = [row for row in rows if row.data.kind == kind]
    alike += [row for row in rows if kind in SOURCES and SOURCES[row.data.kind].media == SOURCES[kind].media]
    row: Template | None = all_templates()[name] if name else next(iter(alike), None)
    model = tables.get("model", {})
    if "start" in tables or not isinstance(model, Mapping) or "name" in model or row is None:
        return
    if row.start:
        fix = f'name it: regard.train("{name}", data, start="path/to/model")'
        raise InputError(f"{name!r} fine-tunes a model, which is not given", fix=fix)
    tables["model"] = {**row.model, **given.model, **model}
    if row.data.kind == kind:
        plain = {one.name: one.default for one in fields(row.data) if one.name not in SOURCES[kind].paths}
        for key, usual in plain.items():
            if (value := getattr(row.data, key)) != usual and key != "kind":
                tables["data"].setdefault(key, value)


def settings_asked(asked: AskedRun, data: Mapping[str, Any]) -> RunSettings:
    """The settings, strictly; ``data`` are those of data that was written to files."""
    tables = copy.deepcopy({key: value for key, value in asked.tables.items() if key != "data"})
    tables["data"] = {**asked.tables.get("data", {}), **data}
    return locate_models(settings_of(tables, asked.where), asked.base)
