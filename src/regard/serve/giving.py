"""An input as it came over the border, as what a model is shown: checked before any net sees it."""

import base64
import binascii
from collections.abc import Sequence

from PIL import Image

from regard.data.images import Images
from regard.data.pixels import DamagedError, decoded
from regard.errors import InputError
from regard.look.changes import Change, Head
from regard.look.maps import matching
from regard.model import Model
from regard.tasks.translating import clean

from .limits import INFLUENCED, PIXELS, PLAIN_PIXELS, REWEIGHTED, TOKENS
from .schema import CaptionInput, ImageInput, Input, PairInput, TextInput
from .shelf import takes

Given = tuple[str | Image.Image, ...]
SIGNS = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
)  # what these files begin with; WebP is one of RIFF


def given(model: Model, asked: Input, changes: Sequence[Change] = ()) -> Given:
    """In the order in which ``model.look`` takes it."""
    kind, wants = asked.kind, takes(model)
    fitting = {"text": ("text",), "pair": ("text", "pair"), "image": ("image",), "image+text": ("image", "caption")}
    if kind not in fitting[wants]:
        raise InputError("this model takes something else", got=kind, expected=" or ".join(fitting[wants]))
    match asked:
        case TextInput(text=text):
            found: Given = (text,)
        case PairInput(source=source, target=target):
            found = (source,) if target is None else (source, target)
        case ImageInput():
            found = (picture(model, asked),)
        case CaptionInput(image=image, target=target):
            found = (picture(model, image), *(() if target is None else (target,)))
    most = REWEIGHTED if any(not isinstance(change, Head) for change in changes) else TOKENS
    for one in found:
        if isinstance(one, str):
            check_tokens(model, one, most)
    return found


def check_looked(model: Model, shown: Given) -> None:
    """What can be run may be too dear to be looked at."""
    if "influence" in matching(model.net, "*").values():
        for one in shown:
            if isinstance(one, str):
                check_tokens(model, one, INFLUENCED)


def check_tokens(model: Model, text: str, most: int) -> None:
    count = len(model.text().literal().ids([clean(text)])[0])
    if count > most:
        raise InputError("the text has too many tokens", got=str(count), expected=f"at most {most}")


def picture(model: Model, asked: ImageInput) -> Image.Image:
    try:
        raw = base64.b64decode(asked.png.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("this image is not written in base64") from None
    if not raw.startswith(SIGNS) and not (raw[:4] == b"RIFF" and raw[8:12] == b"WEBP"):
        raise InputError("this is no image that can be read", expected="PNG, JPEG, GIF or WebP")
    images = model.processor if isinstance(model.processor, Images) else None
    most = PLAIN_PIXELS if images is not None and images.size is None else PIXELS
    try:
        return decoded(raw, most)
    except DamagedError as reason:
        told = str(reason).partition(":")[0]  # what a decoder says stays here
        raise InputError("this image cannot be used", got=told) from None
