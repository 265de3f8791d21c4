"""Boxes in the answers of the HTTP API."""

from typing import Literal

from pydantic import BaseModel


class PageBox(BaseModel):
    label: str
    score: float
    box: list[float]


class BoxesAnswer(BaseModel):
    """Boxes are left, top, right, bottom, in pixels of the image as the model sees it, of this width and height."""

    kind: Literal["boxes"]
    width: int
    height: int
    boxes: list[PageBox]
