"""What a captioner takes and gives: how images are prepared, how words are written; and batches of both.

Shapes: b batch, n words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decode.symbols import Symbols
from regard.modalities.images.processor import Images
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.processor import Text, pad_ids
from regard.modalities.text.vocabulary import framing_tokens

KIND = "captions"


class Described(NamedTuple):
    """One example."""

    image: Tensor  # (c, h, w), uint8
    caption: str


@dataclass(frozen=True, eq=False)
class Captions:
    images: Images
    text: Text

    @property
    def media(self) -> dict[str, Images | Text]:
        return {"image": self.images, "text": self.text}

    def files(self) -> dict[str, bytes]:
        return self.text.files()

    def to_data(self) -> dict[str, Any]:
        """Without the text, whose file stands beside it."""
        return {"kind": KIND, "images": self.images.to_data()}


class CaptionMaker:
    """Images, normalised, and their captions between a begin and an end."""

    def __init__(self, images: Images, text: Text, longest: int, symbols: Symbols | None = None) -> None:
        self.images, self.text, self.longest = images, text.literal(), longest
        self.begin, self.end = framing_tokens(text, symbols)

    def __call__(self, rows: Sequence[Described]) -> Pairs:
        pixels = self.images.normalise(torch.stack([row.image for row in rows]))
        return self.together(pixels, [row.caption for row in rows])

    def together(self, pixels: Tensor, captions: Sequence[str]) -> Pairs:
        """Of images that are normalised already.  (b, channels, height, width)"""
        ids = [row[: self.longest - 1] for row in self.text.unframed(list(captions))]
        given, wanted = pad_ids([[self.begin, *row] for row in ids]), pad_ids([[*row, self.end] for row in ids])
        keys = torch.ones_like(wanted.ids, dtype=torch.bool) if wanted.keys is None else wanted.keys
        return Pairs(pixels, None, given.ids, wanted.ids, keys)
