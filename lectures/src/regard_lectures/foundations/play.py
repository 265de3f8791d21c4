"""The letters of tiny Shakespeare, the last tenth held out unless another cut is given."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.archives import unpacked_file
from regard.data.files import find_file as found
from regard.models.ngram import IntArray

FILE = "tiny_shakespeare/input.txt.gz"


@dataclass(frozen=True, eq=False)
class Play:
    """Letters as numbers from 0. Two more are for n-grams: a letter that was never seen, and the end."""

    train: IntArray
    held_out: IntArray
    letters: str

    @property
    def vocab(self) -> int:
        return len(self.letters) + 2

    @property
    def end(self) -> int:
        return len(self.letters) + 1


def words() -> str:
    return unpacked_file(found(FILE, Path())).read_text(encoding="utf-8")


def numbered(text: str, cut: int | None = None) -> Play:
    """The letters that are held out have numbers of their own only if the others have them too."""
    cut = len(text) * 9 // 10 if cut is None else cut
    letters = "".join(sorted(set(text[:cut])))
    numbers = {letter: i for i, letter in enumerate(letters)}
    ids = np.array([numbers.get(letter, len(letters)) for letter in text])
    return Play(ids[:cut], ids[cut:], letters)
