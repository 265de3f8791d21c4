"""Sentences and their translations, as batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decode.symbols import Symbols

from .processor import Text, TokenBatch, pad_ids
from .vocabulary import framing_tokens


@dataclass(frozen=True, eq=False)
class Pairs:
    """A batch for teacher forcing: the target shifted right is given, the target itself is wanted."""

    source: Tensor  # (b, m)
    source_keys: Tensor | None  # (b, m), False at padding
    given: Tensor  # (b, n)
    wanted: Tensor  # (b, n)
    keys: Tensor  # (b, n), False at padding


class PairMaker:
    """Two texts of each row into ids; what is longer than ``longest`` tokens is cut."""

    def __init__(self, text: Text, longest: int, symbols: Symbols | None = None) -> None:
        self.text, self.longest = text.literal(), longest
        self.begin, self.end = framing_tokens(text, symbols)

    def __call__(self, rows: Sequence[tuple[str, str]]) -> Pairs:
        ids = self.text.unframed([text for row in rows for text in row])
        sources = [[*row[: self.longest - 1], self.end] for row in ids[::2]]
        targets = [row[: self.longest - 1] for row in ids[1::2]]
        return pairs_of(sources, targets, self.begin, self.end)


def pairs_of(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], begin: int, end: int) -> Pairs:
    """Ids of what is read and of what is to be written."""
    source: TokenBatch = pad_ids(sources)
    given, wanted = pad_ids([[begin, *row] for row in targets]), pad_ids([[*row, end] for row in targets])
    keys = torch.ones_like(wanted.ids, dtype=torch.bool) if wanted.keys is None else wanted.keys
    return Pairs(source.ids, source.keys, given.ids, wanted.ids, keys)
