"""Images on the page and in the HTTP API: in the request itself as a data address, or uploaded before it."""

import base64
import binascii
import io
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal

from PIL import Image, ImageDraw
from pydantic import BaseModel, Field, StringConstraints, model_validator

from regard.data.faults import DamagedError
from regard.errors import InputError
from regard.modalities.page_input import FileKind, InputContext, LookInput, PageGiven, PageInput, UploadId

from .pixels import decoded
from .runners import image_processor

PIXELS = 16_000_000
PLAIN_PIXELS = 1_000_000  # for a net that takes an image as large as it is
ADDRESS = 8 << 20  # letters of an image that stands in the request

DataAddress = Annotated[
    str, StringConstraints(max_length=ADDRESS, pattern=r"^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*={0,2}$")
]
Size = Annotated[int, Field(ge=1, le=65535)]

IMAGE_FILES = (
    FileKind("image/png", lambda raw: raw.startswith(b"\x89PNG\r\n\x1a\n")),
    FileKind("image/jpeg", lambda raw: raw.startswith(b"\xff\xd8\xff")),
    FileKind("image/gif", lambda raw: raw.startswith((b"GIF87a", b"GIF89a"))),
    FileKind("image/webp", lambda raw: raw[:4] == b"RIFF" and raw[8:12] == b"WEBP"),
)


# Inputs ------------------------------------------------------------------------------------------


class ImageInput(PageGiven):
    """PNG, JPEG, GIF or WebP: a data URL, or the id of an upload. Width and height may be given, as in an answer, but
    are ignored: the file decides."""

    kind: Literal["image"]
    png: DataAddress | None = None
    upload: UploadId | None = None
    width: Size | None = None
    height: Size | None = None

    @model_validator(mode="after")
    def one_source(self) -> "ImageInput":
        if (self.png is None) == (self.upload is None):
            raise ValueError("exactly one of png and upload is required")
        return self

    def given(self, border: InputContext) -> LookInput:
        return (self.picture(border),)

    def picture(self, border: InputContext) -> Image.Image:
        raw = border.uploaded(self.upload) if self.upload is not None else written_in(self.png or "")
        if not any(kind.begins(raw) for kind in IMAGE_FILES):
            raise InputError("unsupported image format", expected="PNG, JPEG, GIF or WebP")
        most = PLAIN_PIXELS if image_processor(border.model).size is None else PIXELS
        try:
            return decoded(raw, most)
        except DamagedError as reason:
            told = str(reason).partition(":")[0]  # what a decoder says stays here
            raise InputError("the image cannot be used", got=told) from None


def written_in(address: str) -> bytes:
    try:
        return base64.b64decode(address.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the image is not valid base64") from None


# Examples ----------------------------------------------------------------------------------------


def image_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "image", "png": seven() if name == "digits" else shapes()}


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


IMAGE = PageInput((ImageInput,), image_example, files=IMAGE_FILES)


# Answers -----------------------------------------------------------------------------------------


class LabelsAnswer(BaseModel):
    kind: Literal["labels"]
    labels: list[tuple[str, float]]
