"""n-grams: the next symbol from the n - 1 before it, by counting.

A Mathematical Theory of Communication (Shannon, 1948); Improved backing-off for m-gram language modeling (Kneser and
Ney, 1995); An empirical study of smoothing techniques (Chen and Goodman, 1998), whose interpolated form this is:
    p(w | h) = max(c(h w) - D, 0) / c(h .) + D N1+(h .) / c(h .) p(w | h')      h' is h without its first symbol
Only the longest histories are counted as they occur; a shorter one counts how many different symbols come before it.

A text is put between ``order - 1`` begins and one end, and the end is foretold like any other symbol.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

History = tuple[int, ...]
Counts = dict[History, dict[int, int]]


@dataclass(frozen=True)
class AddK:
    """(c(h w) + k) / (c(h .) + k v): every symbol is counted k times more than it was seen; 0 is the likeliest."""

    k: float = 1.0


@dataclass(frozen=True)
class KneserNey:
    """Interpolated, with one discount for each length, n1 / (n1 + 2 n2)."""


class NGram:
    """Symbols are the numbers below ``vocab``, the end among them; the begin, which is never foretold, is not."""

    def __init__(self, order: int, vocab: int, end: int, smoothing: AddK | KneserNey) -> None:
        if order < 1 or not 0 <= end < vocab:
            raise ValueError(f"an order of {order} with the end {end} of {vocab} symbols makes no sense")
        self.order, self.vocab, self.end, self.smoothing = order, vocab, end, smoothing
        self.begin = vocab
        self.counts: list[Counts] = [{} for _ in range(order)]  # by the length of the history
        self.discounts = [0.0] * order

    def learn(self, texts: Iterable[Sequence[int]]) -> "NGram":
        """Count. Once for all: a shorter history counts the longer ones, so nothing can be added later."""
        longest = self.counts[-1]
        for text in texts:
            for history, symbol in self.windows(text):
                table = longest.setdefault(history, {})
                table[symbol] = table.get(symbol, 0) + 1
        for length in range(self.order - 2, -1, -1):
            self.counts[length] = self.shortened(length)
        self.discounts = [discount(table) for table in self.counts]
        return self

    def shortened(self, length: int) -> Counts:
        """Of shorter histories: how often, or for Kneser and Ney, after how many different symbols."""
        found: Counts = {}
        once = isinstance(self.smoothing, KneserNey)
        for history, table in self.counts[length + 1].items():
            own = found.setdefault(history[1:], {})
            for symbol, count in table.items():
                own[symbol] = own.get(symbol, 0) + (1 if once else count)
        return found

    def windows(self, text: Sequence[int]) -> Iterator[tuple[History, int]]:
        """Each symbol, and the end, with the history before it."""
        row = [*[self.begin] * (self.order - 1), *text, self.end]
        for i in range(self.order - 1, len(row)):
            yield tuple(row[i - self.order + 1 : i]), row[i]

    def foretold(self, before: Sequence[int]) -> NDArray[np.float64]:
        """The probability of every symbol after these.  -> (v,)"""
        history = tuple([*[self.begin] * (self.order - 1), *before][len(before) :]) if self.order > 1 else ()
        if isinstance(self.smoothing, AddK):
            found = np.full(self.vocab, self.smoothing.k, np.float64)
            for symbol, count in self.counts[-1].get(history, {}).items():
                found[symbol] += count
            total = found.sum()
            return found / total if total else np.full(self.vocab, 1 / self.vocab)
        found = np.full(self.vocab, 1 / self.vocab)
        for length, (counts, off) in enumerate(zip(self.counts, self.discounts, strict=True)):
            if table := counts.get(history[len(history) - length :]):  # what was never seen says nothing
                total = sum(table.values())
                found *= off * len(table) / total
                for symbol, count in table.items():
                    found[symbol] += max(count - off, 0.0) / total
        return found

    def probability(self, history: History, symbol: int) -> float:
        """Of one symbol; the same number as ``foretold`` has, without the others."""
        if isinstance(self.smoothing, AddK):
            seen, k = self.counts[-1].get(history, {}), self.smoothing.k
            total = sum(seen.values()) + k * self.vocab
            return (seen.get(symbol, 0) + k) / total if total else 1 / self.vocab
        found = 1 / self.vocab
        for length, (counts, off) in enumerate(zip(self.counts, self.discounts, strict=True)):
            if table := counts.get(history[len(history) - length :]):
                total = sum(table.values())
                found = max(table.get(symbol, 0) - off, 0.0) / total + off * len(table) / total * found
        return found

    def bits(self, texts: Iterable[Sequence[int]]) -> float:
        """The mean surprise of a symbol, the ends counted; 2 to the power of it is the perplexity."""
        total, count = 0.0, 0
        for text in texts:
            for history, symbol in self.windows(text):
                chance = self.probability(history, symbol)
                total += -math.log2(chance) if chance > 0 else math.inf
                count += 1
        return total / max(count, 1)

    def histories(self) -> int:
        """How many different ones were seen: they grow with the order, and soon each is seen but once."""
        return len(self.counts[-1])


def discount(counts: Counts) -> float:
    """n1 / (n1 + 2 n2): how many were seen once, and how many twice."""
    once = sum(count == 1 for table in counts.values() for count in table.values())
    twice = sum(count == 2 for table in counts.values() for count in table.values())
    return once / (once + 2 * twice) if once else 0.0
