"""Missing spans, to be written from what is left of a text.

T5 (Raffel et al., 2020), section 3.1.4: 15 % of the tokens are taken away in spans of three on average. What is read
has one token in the place of each span; what is written are these tokens, each with its span behind it, and one more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.counter_rng import permutation
from regard.decode.symbols import Symbols

from .pairs import Pairs, pairs_of
from .processor import Text
from .vocabulary import framing_tokens, sentinels_of


class SpanBatch:
    def __init__(self, text: Text, length: int, share: float, mean: float, symbols: Symbols | None = None) -> None:
        self.length, self.share, self.mean = length, share, mean
        self.sentinels = sentinels_of(text)
        self.begin, self.end = framing_tokens(text, symbols)

    def __call__(self, rows: Sequence[Sequence[int]], numbers: Sequence[np.random.Philox]) -> Pairs:
        sources, targets = [], []
        for row, own in zip(rows, numbers, strict=True):
            source, target = self.corrupt(np.asarray(row)[: self.length], own)
            sources.append([*source, self.end])
            targets.append(target)
        return pairs_of(sources, targets, self.begin, self.end)

    def corrupt(self, ids: NDArray[np.integer], numbers: np.random.Philox) -> tuple[list[int], list[int]]:
        """-> what is left, and what is missing"""
        missing = min(max(round(len(ids) * self.share), 1), len(ids) - 1) if len(ids) > 1 else 0
        count = min(max(round(missing / self.mean), 1), missing, len(ids) - missing, len(self.sentinels) - 1)
        source: list[int] = []
        target: list[int] = []
        place = 0
        for i, (kept, gone) in enumerate(
            zip(parts(len(ids) - missing, count, numbers), parts(missing, count, numbers), strict=True)
        ):
            source += [*ids[place : place + kept].tolist(), self.sentinels[i]]
            target += [self.sentinels[i], *ids[place + kept : place + kept + gone].tolist()]
            place += kept + gone
        return [*source, *ids[place:].tolist()], [*target, self.sentinels[count]]


def parts(total: int, count: int, numbers: np.random.Philox) -> list[int]:
    """A number as the sum of so many that are at least 1, each way equally likely."""
    if count < 1:
        return []
    cuts = np.sort(permutation(numbers, total - 1)[: count - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [total]])).astype(int).tolist()
