"""Noise on the page and in the HTTP API: a seed; and the image that is drawn of it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from PIL import Image
from pydantic import BaseModel, Field, StringConstraints, model_validator

from regard.data.faults import DamagedError
from regard.errors import InputError
from regard.modalities.images.page import written_in
from regard.modalities.images.pixels import load_image, upright
from regard.modalities.page_input import InputContext, LookInput, PageGiven, PageInput, StrictModel
from regard.modalities.text.page import LimitedText, check_length

from .redrawing import Redrawing

MASK_PIXELS = 1 << 20
MASK_ADDRESS = 1 << 17  # letters; of black and white a PNG is far smaller

MaskAddress = Annotated[
    str, StringConstraints(max_length=MASK_ADDRESS, pattern=r"^data:image/png;base64,[A-Za-z0-9+/]*={0,2}$")
]
Seed = Annotated[int, Field(ge=0, lt=2**53)]  # as many as a page can tell apart


class NoiseInput(PageGiven):
    """The image of this seed is drawn."""

    kind: Literal["noise"]
    seed: Seed

    def given(self, border: InputContext) -> LookInput:
        found: Any = self.seed
        return (found,)


def noise_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "noise", "seed": 1}


NOISE = PageInput((NoiseInput,), noise_example)


class DrawnOf(StrictModel):
    """What an image was drawn of, which gives it again."""

    text: LimitedText
    seed: Seed


class PromptInput(PageGiven):
    """The image that is drawn of a text, by this seed. With a mask, a PNG as a data address, only what is white there
    is drawn, and all else stays as it is in the image ``of`` another text and seed."""

    kind: Literal["prompt"]
    text: LimitedText
    seed: Seed = 1
    mask: MaskAddress | None = None
    of: DrawnOf | None = None

    @model_validator(mode="after")
    def both_or_none(self) -> "PromptInput":
        if (self.mask is None) != (self.of is None):
            raise ValueError("mask and of belong together")
        return self

    def given(self, border: InputContext) -> LookInput:
        found: Any = (check_length(border, self.text), self.seed)
        if self.mask is None or self.of is None:
            return found
        return (*found, Redrawing(mask_picture(self.mask), check_length(border, self.of.text), self.of.seed))


def mask_picture(address: str) -> Image.Image:
    try:
        return upright(load_image(written_in(address), MASK_PIXELS))
    except DamagedError as reason:
        told = str(reason).partition(":")[0]  # what a decoder says stays here
        raise InputError("the mask cannot be used", got=told) from None


def prompt_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "prompt", "text": "a large red circle above a small blue square", "seed": 1}


PROMPT = PageInput((PromptInput,), prompt_example, words="shakespeare")


class DrawingDocument(BaseModel):
    """An image as a data address, and the seed and number that give it again."""

    kind: Literal["drawing"]
    seed: int
    number: int
    width: int
    height: int
    png: str
