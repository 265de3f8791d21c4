"""A whole text, line ends and all, read through a window of so many tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.encodings import UTF8
from regard.data.faults import Fault
from regard.data.plain_text import read_text
from regard.data.rows import IntegerArray
from regard.errors import InputError

from .processor import Text

PASSAGE = 1 << 16  # characters that are read at once


class Passages:
    """Rows of one field: a text in passages that end where a line does, so that nothing is lost between them."""

    def __init__(self, texts: Sequence[str], name: str) -> None:
        self.texts, self.name = texts, name
        self.faults: tuple[Fault, ...] = ()
        self.lengths: IntegerArray = np.array([[len(text.encode("utf-8"))] for text in texts], np.int64).reshape(-1, 1)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> tuple[str]:
        return (self.texts[i],)

    def where(self, i: int) -> str:
        return f"{self.name}, passage {i + 1}"

    def cut(self, share: float) -> tuple["Passages", "Passages"]:
        """All but a share at the end, and that; the cut is between two lines where there are lines."""
        text = "".join(self.texts)
        place = max(1, round(len(text) * (1 - share)))
        line = text.rfind("\n", 0, place) + 1
        place = line or place
        if not 0 < place < len(text):
            raise InputError(
                "the text is too short to hold out a part for validation",
                where=self.name,
                got=f"{len(text)} characters",
            )
        return passages_of(text[:place], self.name), passages_of(text[place:], f"{self.name}, held-out end")


def passages_of(text: str, name: str) -> Passages:
    found, start = [], 0
    while start < len(text):
        end = min(start + PASSAGE, len(text))
        end = (text.rfind("\n", start, end) + 1 or end) if end < len(text) else end
        found.append(text[start:end])
        start = end
    return Passages(found, name)


def open_passages(path: Path, encoding: str = UTF8) -> Passages:
    """A text file, also packed, as it is; the end of a line is one character."""
    return passages_of(read_text(path, encoding=encoding), str(path))


class TextWindows:
    """Rows: where each window begins. Each gives up to twice its ``length`` and one more, so that it can be moved."""

    def __init__(self, source: Passages, text: Text, length: int) -> None:
        literal = text.literal()
        rows = literal.unframed(source.texts)
        self.ids: NDArray[np.int32] = np.fromiter((i for row in rows for i in row), np.int32, sum(map(len, rows)))
        self.name, self.length = source.name, length
        self.starts = np.arange(0, max(len(self.ids), 1), length)
        self.faults: tuple[Fault, ...] = ()
        self.lengths: IntegerArray = np.minimum(length, len(self.ids) - self.starts)[:, None]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        start = int(self.starts[i])
        return self.ids[start : start + 2 * self.length]

    def where(self, i: int) -> str:
        return f"{self.name}, token {int(self.starts[i]) + 1}"
