"""What a verb is given: a model, and one input or several."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import MissingProcessor

Picture = str | Path | Image.Image | NDArray[np.uint8]  # a file, or an image in memory
PIXELS = "an array of type uint8 and shape (height, width) or (height, width, 3)"


class ModelView(Protocol):
    """What a verb sees of a model."""

    @property
    def family(self) -> str: ...
    @property
    def net(self) -> nn.Module: ...
    @property
    def processor(self) -> Any: ...
    @property
    def task(self) -> str | None: ...
    @property
    def symbols(self) -> Symbols: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def unprepared(self) -> MissingProcessor | None: ...
    @property
    def takes(self) -> tuple[str, ...]: ...
    @property
    def length(self) -> int | None: ...
    def verbs(self) -> tuple[str, ...]: ...
    def can(self, verb: str) -> bool: ...
    def get(self, key: str) -> Any: ...
    def look(self, *given: Any) -> Any: ...
    def __call__(self, *inputs: Any, look: str | None = None) -> Any: ...


def is_pixels(given: object) -> bool:
    """Whether it is an array of one image, grey or in colours, whose numbers can only mean 0 to 255."""
    shape: tuple[int, ...] = given.shape if isinstance(given, np.ndarray) and given.dtype == np.uint8 else ()
    return min(shape, default=0) > 0 and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3))


def in_memory(picture: object) -> Image.Image | None:
    """The image that is given as itself or as an array of pixels; None for a path."""
    if isinstance(picture, np.ndarray) and is_pixels(picture):
        return Image.fromarray(np.ascontiguousarray(picture))
    return picture if isinstance(picture, Image.Image) else None


def path_of(picture: Picture) -> str:
    """Empty for an image in memory."""
    return str(picture) if isinstance(picture, str | Path) else ""


def is_single(given: object) -> bool:
    return isinstance(given, str | Path | Image.Image) or is_pixels(given)


def as_list(given: Any) -> list[Any]:
    """Those of a list, or the one that is given. Another array may be many images, up to 255 or to 1: nobody knows."""
    if is_single(given):
        return [given]
    if isinstance(given, Mapping) or hasattr(given, "__array__") or not isinstance(given, Iterable):
        raise InputError(
            "unsupported input type",
            got=type_of(given),
            expected=f"a path, a text, a PIL image, {PIXELS}, or a list of these",
            fix=array_fix(given),
        )
    return list(given)


def array_fix(given: object) -> str:
    """How to make an array one of pixels; empty for anything else."""
    if not hasattr(given, "__array__"):
        return ""
    if isinstance(given, np.ndarray) and given.dtype == np.uint8:
        return "give several images as a list, such as list(images)" if given.ndim == 4 else "use PIL.Image.fromarray"
    return "numbers from 0 to 1 become pixels with (255 * numbers).round().astype('uint8')"


def type_of(given: object) -> str:
    """Of an array, with its numbers and shape."""
    if isinstance(given, np.ndarray):
        return f"an array of type {given.dtype} and shape {given.shape}"
    return type(given).__name__


def as_texts(given: object) -> list[str]:
    """The text that is given, or those of a list."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError("the input is not a text", got=type_of(given), expected="a string, or a list of strings")
    texts = list(given)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError("an input is not a text", where=f"index {i}", got=type_of(text), expected="a string")
    return texts


def input_text(given: object) -> str:
    """A text, where images may stand too."""
    if not isinstance(given, str):
        raise InputError("the input is not a text", got=type(given).__name__, expected="a string")
    return given


def check_count(model: ModelView, given: Sequence[Picture], *wanted: int) -> None:
    """As many inputs as are looked at together."""
    if len(given) not in wanted:
        many = " or ".join(map(str, wanted))
        raise InputError(f"wrong number of inputs for a {model.family}", got=f"{len(given)}", expected=many)
