"""The table of kinds of data: the [data] table of a run file names one."""

from typing import Any

from regard.tables import Table

from .run_parts import DataKind

SOURCES = Table[DataKind](
    "kind of data",
    {
        "pairs": "regard.modalities.text.sources.pairs:KIND",
        "reverse": "regard.modalities.text.sources.reverse:KIND",
        "text": "regard.modalities.text.sources.plain:KIND",
        "labelled": "regard.modalities.text.sources.labelled:KIND",
        "tagged": "regard.modalities.text.sources.tagged:KIND",
        "answers": "regard.modalities.text.sources.answers:KIND",
        "images": "regard.modalities.images.sources.files:KIND",
        "digits": "regard.modalities.images.sources.digits:KIND",
        "dataset": "regard.modalities.images.sources.dataset:KIND",
        "boxes": "regard.modalities.boxes.sources.files:KIND",
        "shapes": "regard.modalities.boxes.sources.shapes:KIND",
        "captions": "regard.modalities.captions.sources.files:KIND",
        "scenes": "regard.modalities.captions.sources.scenes:KIND",
        "series": "regard.modalities.series.sources.files:KIND",
        "waves": "regard.modalities.series.sources.waves:KIND",
        "scene-images": "regard.modalities.drawing.sources.scene_images:KIND",
    },
)


def source_of(data: Any) -> DataKind:
    """The row of a [data] table."""
    return SOURCES[data.kind]
