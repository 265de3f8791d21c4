"""The table of media. Reading it imports no modality's code but its rows."""

from regard.tables import Table

from .medium import Medium

MEDIA = Table[Medium](
    "medium",
    {
        "text": "regard.modalities.text.medium:TEXT",
        "image": "regard.modalities.images.medium:IMAGE",
        "series": "regard.modalities.series.medium:SERIES",
        "noise": "regard.modalities.drawing.medium:NOISE",
    },
)
