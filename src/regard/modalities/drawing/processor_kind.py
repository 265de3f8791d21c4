"""The processor of a generator in its folder: how images were prepared for it."""

from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError, InputError
from regard.modalities.images.processor import Images
from regard.modalities.processor import ForeignFolder, MissingProcessor, ProcessorFolder, ProcessorKind
from regard.models.family import Family

from .processor import Drawn


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Drawn:
    where = str(home.folder / "regard.json")
    if set(data) != {"kind", "images"} or not isinstance(data["images"], dict):
        raise ConfigError("invalid processor of drawn images", where=where, got=f"keys {', '.join(data)}"[:200])
    return Drawn(Images.from_data(data["images"], where))


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> MissingProcessor:
    return MissingProcessor(
        str(home.folder), "generators of other libraries are not supported", "train a model with regard train"
    )


def export(drawn: Drawn, folder: ForeignFolder) -> ForeignFolder:
    raise InputError(
        "generators cannot be exported to other libraries", fix="save the model in regard's own format with regard.save"
    )


def blank(family: Family, config: Any, words: object) -> Drawn:
    """Of as many channels as the net gives; what no image has is no image's, and is refused when it is drawn."""
    channels = family.get(config, "channels")
    return Drawn(Images(size=family.get(config, "image"), channels=channels if channels in (1, 3) else 3))


DRAWN = ProcessorKind(frozenset({"noise"}), (), read, read_foreign, export, blank)
