"""Which word is made of which, learned from pairs of sentences alone: IBM's first model of translation.

Brown et al. (1993), https://aclanthology.org/J93-2003
"""

import re
from collections.abc import Sequence

import numpy as np

NOTHING = ""  # what words of the target are made of that no word of the source explains


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Lexicon:
    """t(target word | source word), by expectation and maximisation from equal chances."""

    def __init__(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], *, rounds: int = 6) -> None:
        places: dict[tuple[str, str], int] = {}
        chosen, written, count = [], [], 0  # for every (word of a target, word of its source): which pair, which target
        for source, target in pairs:
            for after in target:
                for before in source:
                    chosen.append(places.setdefault((before, after), len(places)))
                    written.append(count)
                count += 1
        sources = {before: i for i, before in enumerate(dict.fromkeys(before for before, _ in places))}
        pair, target_of = np.array(chosen), np.array(written)
        source_of = np.array([sources[before] for before, _ in places])
        chances = np.ones(len(places))
        for _ in range(rounds):
            shares = chances[pair] / np.bincount(target_of, chances[pair])[target_of]
            counts = np.bincount(pair, shares)
            chances = counts / np.bincount(source_of, counts)[source_of]
        self.chances = dict(zip(places, chances.tolist(), strict=True))

    def chance(self, before: str, after: str) -> float:
        return self.chances.get((before, after), 0.0)

    def align(self, source: Sequence[str], after: str) -> int | None:
        """The place of the word that this one is made of; None where nothing is known, or it is made of none."""
        chances = [self.chance(before, after) for before in source]
        best = max(range(len(source)), key=chances.__getitem__, default=None)
        return best if best is not None and chances[best] > self.chance(NOTHING, after) else None
