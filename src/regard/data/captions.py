"""What a captioner takes and gives: how images are prepared, how words are written; and batches of both.

Shapes: b batch, n words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.errors import ConfigError
from regard.interop.symbols import Symbols

from .images import Images
from .pairs import Pairs
from .text import Text, padded
from .vocabulary import ends_of

KIND = "captions"


@dataclass(frozen=True, eq=False)
class Captions:
    images: Images
    text: Text

    def to_data(self) -> dict[str, Any]:
        """Without the text, whose file stands beside it."""
        return {"kind": KIND, "images": self.images.to_data()}


def images_from_data(data: Mapping[str, Any], where: str) -> Images:
    """What ``to_data`` gave, read strictly."""
    if set(data) != {"kind", "images"} or not isinstance(data["images"], dict):
        raise ConfigError("this is no processor of captions", where=where, got=f"keys {', '.join(data)}"[:200])
    return Images.from_data(data["images"], where)


class CaptionMaker:
    """Images, normalised, and their captions between a begin and an end."""

    def __init__(self, images: Images, text: Text, longest: int, symbols: Symbols | None = None) -> None:
        self.images, self.text, self.longest = images, text.literal(), longest
        self.begin, self.end = ends_of(text, symbols)

    def __call__(self, rows: Sequence[Any]) -> Pairs:
        ids = [row[: self.longest - 1] for row in self.text.unframed([row.caption for row in rows])]
        given, wanted = padded([[self.begin, *row] for row in ids]), padded([[*row, self.end] for row in ids])
        keys = torch.ones_like(wanted.ids, dtype=torch.bool) if wanted.keys is None else wanted.keys
        pixels = self.images.normalise(torch.stack([row.image for row in rows]))
        return Pairs(pixels, None, given.ids, wanted.ids, keys)
