"""The table of verbs, in the order of the command line's help. Reading it imports neither torch nor a modality."""

from regard.tables import Table

from .verb import Verb

VERBS = Table[Verb](
    "verb",
    {
        "translate": "regard.modalities.text.verbs:TRANSLATE",
        "generate": "regard.modalities.text.verbs:GENERATE",
        "classify": "regard.modalities.labels.verbs:CLASSIFY",
        "describe": "regard.modalities.captions.verbs:DESCRIBE",
        "tag": "regard.modalities.text.verbs:TAG",
        "answer": "regard.modalities.text.verbs:ANSWER",
        "detect": "regard.modalities.boxes.verbs:DETECT",
        "forecast": "regard.modalities.series.verbs:FORECAST",
        "draw": "regard.modalities.drawing.verbs:DRAW",
        "embed": "regard.modalities.text.verbs:EMBED",
    },
)
