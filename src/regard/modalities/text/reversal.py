"""Data that code makes, for what must run on a machine that has none."""

import numpy as np

from regard.data.faults import Fault

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Reversal:
    """Numbers in words, and the same in reverse: "one two three" -> "three two one"."""

    def __init__(self, count: int, longest: int, seed: int) -> None:
        numbers = np.random.Generator(np.random.Philox(seed))
        self.sizes = numbers.integers(2, longest + 1, count)
        self.words = numbers.integers(0, len(WORDS), (count, longest))
        self.faults: tuple[Fault, ...] = ()
        self.lengths = np.stack((self.sizes, self.sizes), 1)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: int) -> tuple[str, str]:
        words = [WORDS[word] for word in self.words[i, : self.sizes[i]]]
        return " ".join(words), " ".join(words[::-1])

    def where(self, i: int) -> str:
        return f"generated row {i}"
