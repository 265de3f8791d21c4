"""n-grams: the next symbol from the n - 1 before it, by counting.

A Mathematical Theory of Communication (Shannon, 1948); Improved backing-off for m-gram language modeling (Kneser and
Ney, 1995); An empirical study of smoothing techniques (Chen and Goodman, 1998), whose interpolated form this is:
    p(w | h) = max(c(h w) - D, 0) / c(h .) + D N1+(h .) / c(h .) p(w | h')      h' is h without its first symbol
Only the longest histories are counted as they occur; a shorter one counts how many different symbols come before it.

A text is put between ``order - 1`` begins and one end, and the end is foretold like any other symbol.

Histories are numbered: one of n symbols by its first symbol and the number of the others, which are a history of n - 1.
So all that follows is sorting whole numbers, and however long a history is, its number is small.

Shapes: v symbols, n places of a text, h histories of one length, g of them with a symbol after each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Text = Sequence[int] | IntArray


@dataclass(frozen=True)
class AddK:
    """Add-k smoothing, (c(h w) + k) / (c(h .) + k v); k = 0 is the maximum likelihood estimate."""

    k: float = 1.0


@dataclass(frozen=True)
class KneserNey:
    """Interpolated Kneser-Ney smoothing, with one discount for each order, n1 / (n1 + 2 n2)."""


@dataclass(frozen=True, eq=False)
class CountTable:
    """Counts of one order: the histories and the symbols after them, each pair encoded as first * base + second."""

    base: int
    histories: IntArray  # (h,): the number of all symbols but the first, and the first; sorted
    grams: IntArray  # (g,): the number of a history, and a symbol that was seen after it; sorted
    counts: IntArray  # (g,)

    @cached_property
    def starts(self) -> IntArray:
        """(h + 1,): where the symbols after each history begin among the grams"""
        return np.searchsorted(self.grams, np.arange(len(self.histories) + 1) * self.base)

    @cached_property
    def totals(self) -> IntArray:
        """(h,): c(h .)"""
        return np.bincount(self.grams // self.base, self.counts, len(self.histories)).astype(np.int64)

    @cached_property
    def kinds(self) -> IntArray:
        """(h,): N1+(h .)"""
        return np.diff(self.starts)

    @cached_property
    def discount(self) -> float:
        """n1 / (n1 + 2 n2): how many were seen once, and how many twice."""
        once, twice = int((self.counts == 1).sum()), int((self.counts == 2).sum())
        return once / (once + 2 * twice) if once else 0.0

    @cached_property
    def symbols(self) -> IntArray:
        """(g,): what was seen"""
        return self.grams % self.base

    @cached_property
    def shares(self) -> FloatArray:
        """(g,): max(c(h w) - D, 0) / c(h .)"""
        return np.maximum(self.counts - self.discount, 0) / self.totals[self.grams // self.base]

    @cached_property
    def rests(self) -> FloatArray:
        """(h,): D N1+(h .) / c(h .), which the shorter history shares out"""
        return self.discount * self.kinds / self.totals

    def after(self, history: int) -> slice:
        """Where among the grams those of a history are."""
        return slice(self.starts[history], self.starts[history + 1])

    def shortened(self, histories: IntArray, *, once: bool) -> "CountTable":
        """Of histories without their first symbols: how often, or if ``once``, after how many different symbols."""
        shorter = self.histories[self.grams // self.base] // self.base
        grams, which = np.unique(shorter * self.base + self.grams % self.base, return_inverse=True)
        counts = np.bincount(which, None if once else self.counts, len(grams))
        return CountTable(self.base, histories, grams, counts.astype(np.int64))


class NGram:
    """n-gram language model. Symbols are 0 to ``vocab`` - 1, including the end symbol, but not the begin symbol, which
    is never predicted."""

    def __init__(self, order: int, vocab: int, end: int, smoothing: AddK | KneserNey) -> None:
        if order < 1 or not 0 <= end < vocab:
            raise ValueError(
                f"expected order >= 1, vocab >= 1 and end from 0 to vocab - 1, got order = {order}, vocab = "
                f"{vocab}, end = {end}"
            )
        self.order, self.vocab, self.end, self.smoothing = order, vocab, end, smoothing
        self.begin, self.base = vocab, vocab + 1
        self.tables: list[CountTable] = []  # by the length of the history; none if there was nothing to learn

    def learn(self, texts: Iterable[Text]) -> "NGram":
        """Count the n-grams of the texts. Call it once: no texts can be added later."""
        rows, places = self.laid(texts)
        if not len(places):
            return self
        number, histories = np.zeros(len(places), np.int64), [np.zeros(1, np.int64)]
        for length in range(1, self.order):
            found, number = np.unique(number * self.base + rows[places - length], return_inverse=True)
            histories.append(found)
        grams, counts = np.unique(number * self.base + rows[places], return_counts=True)
        self.tables = [CountTable(self.base, histories.pop(), grams, counts)]
        while histories:
            once = isinstance(self.smoothing, KneserNey)
            self.tables.insert(0, self.tables[0].shortened(histories.pop(), once=once))
        return self

    def laid(self, texts: Iterable[Text]) -> tuple[IntArray, IntArray]:
        """All texts in one row with begin and end symbols, and the positions of the symbols to predict."""
        parts: list[ArrayLike] = []
        places, size = [np.zeros(0, np.int64)], 0
        for text in texts:
            if len(text) and not 0 <= min(text) <= max(text) < self.vocab:
                raise ValueError(f"symbols must be from 0 to {self.vocab - 1}, got {min(text)} to {max(text)}")
            parts += [[self.begin] * (self.order - 1), text, [self.end]]
            places.append(np.arange(size + self.order - 1, size := size + self.order + len(text)))
        row = np.concatenate([np.asarray(part, np.int64) for part in parts]) if parts else np.zeros(0, np.int64)
        return row, np.concatenate(places)

    def foretold(self, before: Sequence[int]) -> FloatArray:
        """The probability of every next symbol after these. -> (v,)"""
        known = self.known(before)
        if isinstance(self.smoothing, AddK):
            found = np.full(self.vocab, self.smoothing.k, np.float64)
            if self.tables and len(known) == self.order:
                own = self.tables[-1].after(known[-1])
                found[self.tables[-1].symbols[own]] += self.tables[-1].counts[own]
            total = found.sum()
            return found / total if total else np.full(self.vocab, 1 / self.vocab)
        found = np.full(self.vocab, 1 / self.vocab)
        for table, history in zip(self.tables, known, strict=False):  # what was never seen says nothing
            own = table.after(history)
            found *= table.rests[history]
            found[table.symbols[own]] += table.shares[own]
        return found

    def known(self, before: Sequence[int]) -> list[int]:
        """The ids of the histories that end here, the shortest first, as far as they were seen."""
        last = [*[self.begin] * (self.order - 1), *before[-self.order :]][::-1]
        found = [0]
        for table, symbol in zip(self.tables[1:], last, strict=False):
            wanted = found[-1] * self.base + symbol
            at = int(np.searchsorted(table.histories, wanted))
            if at == len(table.histories) or table.histories[at] != wanted:
                break
            found.append(at)
        return found

    def probability(self, history: Sequence[int], symbol: int) -> float:
        """The probability of one symbol after ``order - 1`` others, as in ``foretold``."""
        return float(self.chances(np.array([*history, symbol]), np.array([self.order - 1]))[0])

    def chances(self, row: IntArray, places: IntArray) -> FloatArray:
        """The probability of the symbols at these positions of a row, given those before. -> (n,)"""
        found = np.full(len(places), 1 / self.vocab)
        number, count, total = (np.zeros(len(places), np.int64) for _ in range(3))
        for length, table in enumerate(self.tables):
            if length:
                number = sought(table.histories, number * self.base + row[places - length])
            gram = sought(table.grams, number * self.base + row[places])
            if isinstance(self.smoothing, KneserNey):
                own = np.where(gram < 0, 0, table.shares[gram]) + table.rests[number] * found
                found = np.where(number < 0, found, own)
            else:
                count, total = (np.where(x < 0, 0, y[x]) for x, y in ((gram, table.counts), (number, table.totals)))
        if isinstance(self.smoothing, AddK) and self.smoothing.k:
            return (count + self.smoothing.k) / (total + self.smoothing.k * self.vocab)
        if isinstance(self.smoothing, AddK):
            return np.where(total > 0, count / np.maximum(total, 1), found)
        return found

    def surprises(self, texts: Iterable[Text]) -> FloatArray:
        """-log2 of the probability of every symbol of the texts, end symbols included."""
        with np.errstate(divide="ignore"):
            return -np.log2(self.chances(*self.laid(texts)))

    def bits(self, texts: Iterable[Text]) -> float:
        """Cross-entropy in bits per symbol, end symbols included; 2 to this power is the perplexity."""
        found = self.surprises(texts)
        return float(found.sum() / max(len(found), 1))

    def histories(self) -> int:
        """How many different ones were seen: they grow with the order, and soon each is seen but once."""
        return len(self.tables[-1].histories)


def sought(numbers: IntArray, wanted: IntArray) -> IntArray:
    """Where these stand among sorted numbers; -1 for those that do not."""
    at = np.searchsorted(numbers, wanted)
    at[at == len(numbers)] = 0
    return np.where(numbers[at] == wanted, at, -1)
