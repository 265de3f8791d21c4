"""The table of answers as the HTTP API documents them, by their kind: what ``Answer.data`` of each gives."""

from typing import Literal

from pydantic import BaseModel

from regard.tables import Table


class NoAnswer(BaseModel):
    kind: Literal["none"]


PAGE_ANSWERS = Table[type[BaseModel]](
    "answer",
    {
        "text": "regard.modalities.text.page:WrittenAnswer",
        "labels": "regard.modalities.images.page:LabelsAnswer",
        "next": "regard.modalities.text.page:NextAnswer",
        "filled": "regard.modalities.text.page:FilledAnswer",
        "tags": "regard.modalities.text.page:TagsAnswer",
        "span": "regard.modalities.text.page:SpanAnswer",
        "embedding": "regard.modalities.text.page:EmbeddingAnswer",
        "boxes": "regard.modalities.boxes.page:BoxesAnswer",
        "forecast": "regard.modalities.series.page:ForecastDocument",
        "drawing": "regard.modalities.drawing.page:DrawingDocument",
        "none": "regard.modalities.page_answers:NoAnswer",
    },
)
