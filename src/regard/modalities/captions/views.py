"""How captions are shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.look.terminal import terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from .runners import ImageDescription


def caption_data(one: "ImageDescription") -> dict[str, Any]:
    several = [{"text": own.text, "score": own.score} for own in one.nbest]
    return {"image": one.image, "text": one.text, "nbest": several}


def caption_lines(answers: "Sequence[ImageDescription]") -> list[str]:
    return [terminal_text(own.text) for one in answers for own in one.nbest]


def caption_fields(one: "ImageDescription") -> dict[str, Any]:
    """The best, and the others where several were asked for."""
    several = {"captions": caption_data(one)["nbest"]} if len(one.nbest) > 1 else {}
    return {"caption": one.text} | several


CAPTIONS = AnswerView(caption_data, caption_lines, fields=caption_fields)
