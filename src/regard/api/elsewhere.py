"""Data that a run is evaluated on although it is not its own."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from regard.data.given_datasets import is_dataset
from regard.data.given_tables import as_settings
from regard.errors import InputError
from regard.modalities.run_parts import DataKind
from regard.modalities.sources import source_of
from regard.modalities.splits import SPLITS

from .stored import settings_in_files, store_rows

TEST = "test"
WAY = ("header", "delimiter", "encoding")  # how a table is read, which is found out anew for each


def datasets_among(data: Any) -> bool:
    """Whether torch datasets are given, which cannot be written down."""
    return any(is_dataset(one, "data") for one in (data.values() if isinstance(data, Mapping) else [data]))


def check_use(settings: Any, data: Any, fix: str) -> None:
    """A run that was not given torch datasets has its data in files, and would not look at what is given."""
    if data is not None and not (source_of(settings).describe and datasets_among(data)):
        raise InputError(
            "this run has no use for such data",
            where="data",
            got=f"{type(data).__name__} for a run with data of kind {settings.kind!r}",
            fix=fix,
        )


def settings_of_given(settings: Any, data: Any, split: str, folder: Path) -> dict[str, Any]:
    """The settings by which a run with these settings of [data] reads other data, as its split test; what stands in
    memory is written into a folder."""
    kind = source_of(settings)
    if set(kind.paths) != set(SPLITS) or kind.describe:  # with images beside, these would be the run's own
        raise InputError(
            f"a run with data of kind {settings.kind!r} cannot be evaluated on other data",
            where="data",
            got=type(data).__name__,
            fix="give its own torch dataset" if kind.describe else "leave data out: the run is evaluated on its own",
        )
    asked = asked_table(data, split)
    known = {one.name: one.default for one in fields(kind.settings)}
    if unknown := [key for key in asked if key not in known]:
        raise InputError("unknown setting of data", got=unknown[0], expected=", ".join(known))
    told, given = settings_in_files(kind, {"kind": settings.kind, **asked})
    if given.rows:
        told |= store_rows(kind, given.rows, asked, folder)
    usual = {key: known[key] for key in WAY if key in known}
    found = {**usual, **{key: tuple(x) if isinstance(x, list) else x for key, x in told.items() if key != "kind"}}
    check_unit(kind, settings, found)
    return found


def asked_table(data: Any, split: str) -> dict[str, Any]:
    """The data as the split test: that of the split that is asked for where there are several, and what is said of its
    columns."""
    if not isinstance(data, Mapping) or not data.keys() & {*SPLITS, "kind"}:
        return {TEST: data}
    for name in (split, *SPLITS):
        if name in data:
            rest = {str(key): as_settings(x) for key, x in data.items() if key not in (*SPLITS, "kind")}
            return {TEST: data[name], **rest}
    raise InputError("data names no split", got=", ".join(map(str, data)), expected=", ".join(SPLITS))


def check_unit(kind: DataKind, settings: Any, found: Mapping[str, Any]) -> None:
    """Texts one by one are no text that is read as a whole."""
    own = vars(settings).get("unit")
    if own is not None and kind.store and found.get("unit", own if "key" not in found else "line") != own:
        raise InputError("this run reads its text in another unit", where="data", expected=f"unit = {own!r}")
