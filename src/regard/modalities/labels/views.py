"""How labels of texts and of images are shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.look.terminal import terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from regard.modalities.images.classifier import ImageClassification
    from regard.modalities.text.text_model import TextClassification


def ranking(one: "TextClassification | ImageClassification") -> dict[str, Any]:
    ranked = [{"label": name, "probability": chance} for name, chance in one.ranked]
    return {"label": one.label, "probability": one.probability, "ranked": ranked}


def text_data(one: "TextClassification") -> dict[str, Any]:
    return {"texts": list(one.texts)} | ranking(one) | {"unread": one.unread, "unknown": list(one.unknown)}


def image_data(one: "ImageClassification") -> dict[str, Any]:
    return {"image": one.image} | ranking(one)


def label_lines(answers: "Sequence[TextClassification | ImageClassification]") -> list[str]:
    """A line for each, the likeliest label first."""
    return ["  ".join(f"{terminal_text(name)} {chance:.1%}" for name, chance in one.ranked) for one in answers]


def label_fields(one: "TextClassification | ImageClassification") -> dict[str, Any]:
    """The likeliest label, and the others where several were asked for."""
    told = ranking(one)
    return told if len(one.ranked) > 1 else {name: told[name] for name in ("label", "probability")}


TEXT = AnswerView(text_data, label_lines, fields=label_fields)
IMAGE = AnswerView(image_data, label_lines, fields=label_fields)
