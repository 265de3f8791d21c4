"""The table of processors, by the kind that ``regard.json`` names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, InputError
from regard.models.family import Family
from regard.tables import Table

from .processor import ProcessorFolder, ProcessorKind

PROCESSORS = Table[ProcessorKind](
    "processor",
    {
        "text": "regard.modalities.text.processor_kind:TEXT",
        "images": "regard.modalities.images.processor_kind:IMAGES",
        "captions": "regard.modalities.captions.processor_kind:CAPTIONS",
        "series": "regard.modalities.series.processor_kind:SERIES",
        "drawings": "regard.modalities.drawing.processor_kind:DRAWN",
        "prompted": "regard.modalities.drawing.prompted:PROMPTED",
    },
)


def kind_for(family: Family) -> ProcessorKind:
    """That which prepares all media that a family takes."""
    for row in PROCESSORS.values():
        if row.media == set(family.takes):
            return row
    raise InputError(
        "no processor prepares what this model family takes",
        got=", ".join(family.takes),
        fix="register a ProcessorKind for it (docs/extending.md)",
    )


def check_kind(data: Any, folder: Path) -> None:
    """Known, and with its files, before anything large is read."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if data is None:
        return
    if not isinstance(kind, str) or kind not in PROCESSORS:
        raise CheckpointError(
            "unknown processor",
            where=str(folder / "regard.json"),
            got=str(data)[:200],
            expected=f"kind: one of {', '.join(PROCESSORS)}",
        )
    for name in PROCESSORS[kind].needs:
        if not (folder / name).is_file():
            raise CheckpointError("the processor is missing a file", where=str(folder), expected=name)


def read_processor(data: Mapping[str, Any] | None, home: ProcessorFolder) -> Any:
    return None if data is None else PROCESSORS[data["kind"]].read(data, home)
