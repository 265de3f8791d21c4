"""What a model is shown first, before anybody has written or drawn anything."""

import base64
import io
from functools import cache
from typing import Any

from PIL import Image, ImageDraw

TEXTS = {
    "tatoeba-en-de": "She has never seen such a big dog in her life.",
    "tatoeba-de-en": "Wo sind meine Schlüssel?",
    "recall": "Anna sings . Boris paints . Clara dances . Boris",
    "shakespeare": "JULIET: O Romeo, Romeo! wherefore art thou",
}
LECTURES = (  # what the decks speak of; for those that read English
    "The server is crashed.",
    "This is the first book I did.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "walking along the river bank",
)
ENGLISH = ("tatoeba-en-de", "shakespeare")
ANY_TEXT = "The animal didn't cross the street because it was too tired."


def example(name: str, takes: str) -> dict[str, Any]:
    """In the form of an input."""
    text = TEXTS.get(name, ANY_TEXT)
    image = {"kind": "image", "png": seven() if name == "digits" else shapes()}
    forms: dict[str, dict[str, Any]] = {
        "text": {"kind": "text", "text": text},
        "pair": {"kind": "pair", "source": text},
        "image": image,
        "image+text": {"kind": "caption", "image": image},
    }
    return forms[takes]


@cache
def seven() -> str:
    """Light ink on black, as the digits are that were learned."""
    image = Image.new("L", (64, 64), 0)
    draw = ImageDraw.Draw(image)
    draw.line([(16, 10), (46, 10), (28, 58)], fill=235, width=9, joint="curve")
    draw.line([(22, 34), (44, 34)], fill=200, width=7)
    return address(image)


@cache
def shapes() -> str:
    image = Image.new("RGB", (96, 96), (236, 232, 222))
    draw = ImageDraw.Draw(image)
    draw.ellipse([12, 14, 52, 54], fill=(196, 62, 40))
    draw.rectangle([54, 48, 86, 80], fill=(40, 92, 150))
    return address(image)


def address(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
