"""How series are prepared for a model, in its folder."""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.modalities.processor import ForeignFolder, MissingProcessor, ProcessorFolder, ProcessorKind
from regard.models.family import Family

from .processor import Series, from_data


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Series:
    return from_data(data, str(home.folder / "regard.json"))


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> MissingProcessor:
    return MissingProcessor(
        str(home.folder), "time series models of other libraries are not supported", "train a model with regard train"
    )


def export(series: Series, folder: ForeignFolder) -> ForeignFolder:
    raise InputError(
        "forecasters cannot be exported to other libraries",
        fix="save the model in regard's own format with regard.save",
    )


def blank(family: Family, config: Any, words: object) -> Series:
    return Series(window=family.get(config, "length") or Series().window)


SERIES = ProcessorKind(frozenset({"series"}), (), read, read_foreign, export, blank)
