"""How long texts are, in tokens: how many of them fill a batch, and where they are cut."""

from collections.abc import Callable, Sequence

import numpy as np

from regard.data.rows import IntegerArray, Rows

from .processor import Text

SAMPLE = 1000  # rows by which the bytes of a token are known
USUAL_LENGTH = 512  # tokens that are read of a text by a model that would read any number


def token_lengths(rows: Rows, text: Text, texts_of: Callable[[int], Sequence[str]] | None = None) -> IntegerArray:
    """About how many tokens each field has: its bytes, by the bytes of a token in a sample; one more for the end."""
    assert rows.lengths is not None
    lengths = rows.lengths.reshape(len(rows), -1)
    picked = np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(int))
    sample = [(texts_of or rows.__getitem__)(int(i)) for i in picked]
    tokens = np.array([[len(ids) for ids in text.ids(row)] for row in sample])
    ratio = tokens.sum(0) / np.maximum(lengths[picked].sum(0), 1)
    return np.ceil(lengths * ratio).astype(np.int64) + 1


def tokens_to_read(asked: int, length: int | None, usual: int = USUAL_LENGTH) -> int:
    """Tokens of a row that are read: as many as the model can, unless fewer are asked for."""
    wanted = asked or usual
    return wanted if length is None else min(wanted, length)


def share_beyond(lengths: IntegerArray, longest: int) -> float:
    """The share of tokens that come after so many in their row."""
    return float(np.maximum(lengths - longest, 0).sum() / max(lengths.sum(), 1))
