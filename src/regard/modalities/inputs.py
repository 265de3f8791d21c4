"""What a verb is given: a model, and one input or several."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from PIL import Image
from torch import nn

from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import MissingProcessor

Picture = str | Path | Image.Image  # a file, or an image in memory


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


def is_single(given: object) -> bool:
    return isinstance(given, str | Path | Image.Image)


def as_list(given: Any) -> list[Any]:
    """Those of a list, or the one that is given. An array may be one image or many, up to 255 or to 1: nobody knows."""
    if is_single(given):
        return [given]
    if isinstance(given, Mapping) or hasattr(given, "__array__") or not isinstance(given, Iterable):
        raise InputError(
            "unsupported input type",
            got=type(given).__name__,
            expected="a path, a text, a PIL image, or a list of these",
            fix="convert an array of pixels to an image with PIL.Image.fromarray(pixels)",
        )
    return list(given)


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
