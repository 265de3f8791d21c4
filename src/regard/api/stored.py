"""Data given in Python: written into the folder of its run, or, if it is a torch dataset, described there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from regard.data.given_datasets import is_dataset
from regard.data.given_tables import is_path
from regard.errors import InputError
from regard.modalities.run_parts import DataKind
from regard.modalities.splits import SPLITS
from regard.modalities.verbs import verb_function


@dataclass(frozen=True, eq=False)
class Given:
    """What stands in memory, by the setting that it is given for: rows, which are written, and torch datasets; and keys
    of a new model's config that follow from these."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    datasets: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)


def settings_in_files(kind: DataKind, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Given]:
    """The settings of a [data] table that a run file can hold, and what it cannot: data in memory."""
    told: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    datasets: dict[str, Any] = {}
    paths = kind.paths or SPLITS
    several = {one.name for one in fields(kind.settings) if one.name in kind.paths and "tuple" in str(one.type)}
    for key, value in asked.items():
        name = paths[0] if key == SPLITS[0] and key not in paths else key
        if name not in paths or value is None:
            told[name] = value
        elif is_dataset(value, f"data.{key}"):
            datasets[name] = value
        elif is_path(value):
            told[name] = path_setting(value, name in several)
        else:
            rows[name] = value
    if unable := [*([] if kind.store else rows), *([] if kind.describe else datasets)]:
        raise InputError(
            f"data of kind {kind_name(kind)!r} can only be given as files",
            where=f"data.{unable[0]}",
            got=type({**rows, **datasets}[unable[0]]).__name__,
            fix=f"give the path of a file: see {', '.join(paths)} in [data] of `regard init`",
        )
    model: dict[str, Any] = {}
    if datasets:
        found, model = verb_function(kind.describe)(datasets)
        told = {**found, **told}
    return told, Given(rows, datasets, model)


def kind_name(kind: DataKind) -> str:
    return next(str(one.default) for one in fields(kind.settings) if one.name == "kind")


def path_setting(given: Any, several: bool) -> str | list[str]:
    paths = [str(one) for one in given] if isinstance(given, list | tuple) else [str(given)]
    found = [str(Path(path).expanduser().absolute()) if Path(path).exists() else path for path in paths]
    return found if several else found[0]


def store_rows(kind: DataKind, rows: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Write what stands in memory into a folder; -> the settings that read it."""
    folder.mkdir(parents=True)
    found: dict[str, Any] = verb_function(kind.store)(rows, asked, folder)
    return found
