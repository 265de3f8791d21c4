"""Completing words as they are typed, by counts of letters alone.

The lines of a text are counted by an n-gram model; what is typed is the beginning of such a line. A completion goes on
to the end of a word, and is ranked by the probability of its letters and of the word's end after them, whatever ends
it. Beam search: as many beginnings as there are beams are kept from letter to letter, the likeliest.

Of what is typed, the model sees the last ``order - 1`` letters. So few different questions are asked, and their answers
are kept.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.models.ngram import FloatArray, KneserNey, NGram

APOSTROPHES = "'’"
LONGEST = 60  # letters of a completion: some texts never end a word
KEPT = 100_000  # answers


@dataclass(frozen=True)
class Completion:
    text: str  # what comes after what was typed
    probability: float


@dataclass(frozen=True)
class Beginning:
    """Of a completion."""

    ids: tuple[int, ...]
    probability: float
    inside: bool  # a word, which another letter would continue
    words: int  # that have ended


@dataclass(frozen=True)
class Keystrokes:
    letters: int
    keys: int

    @property
    def saved(self) -> float:
        """The share of keys that need not be pressed."""
        return 1 - self.keys / self.letters if self.letters else 0.0


class Completing:
    def __init__(self, lines: Sequence[str], order: int, beams: int = 32) -> None:
        self.beams = beams
        self.letters = sorted(set().union(*lines))
        self.ids = {letter: i for i, letter in enumerate(self.letters)}
        self.unknown, end = len(self.letters), len(self.letters) + 1
        self.model = NGram(order, end + 1, end, KneserNey()).learn(self.numbers(line) for line in lines)
        self.inner = np.array([*map(in_word, self.letters), False, False])  # (v,): letters that continue a word
        self.ends = (~self.inner).astype(np.float64)
        between = [letter.isprintable() for letter in self.letters]
        self.between = np.array([*between, False, False]) & ~self.inner  # may stand between two words
        self.answers: dict[tuple[tuple[int, ...], bool, int, int], list[Completion]] = {}
        self.tables: dict[tuple[int, ...], FloatArray] = {}

    def numbers(self, text: str) -> list[int]:
        return [self.ids.get(letter, self.unknown) for letter in text]

    def complete(self, typed: str, top: int = 5, words: int = 1) -> list[Completion]:
        """The likeliest ways to go on to the end of this word, or of the next if none has begun; with ``words``, of so
        many. The likeliest first; there may be fewer than ``top``."""
        inside = typed[-1:] != "" and in_word(typed[-1])
        before = tuple(self.numbers(typed[-self.model.order :]))
        key = (self.seen(before), inside, top, words)
        if key not in self.answers:
            if len(self.answers) >= KEPT:
                self.answers.clear()
            self.answers[key] = self.search(before, inside, top, words)
        return list(self.answers[key])

    def seen(self, before: tuple[int, ...]) -> tuple[int, ...]:
        """What the model sees of what came before."""
        begins = (self.model.begin,) * (self.model.order - 1)
        return (*begins, *before)[len(before) :] if begins else ()

    def foretold(self, before: tuple[int, ...]) -> FloatArray:
        """The probability of every letter.  -> (v,)"""
        key = self.seen(before)
        if key not in self.tables:
            if len(self.tables) >= KEPT:
                self.tables.clear()
            self.tables[key] = self.model.foretold(before)
        return self.tables[key]

    def search(self, before: tuple[int, ...], inside: bool, top: int, words: int) -> list[Completion]:
        found: list[Completion] = []
        alive, beams = [Beginning((), 1.0, inside, 0)], max(self.beams, top)
        for _ in range(LONGEST + 1):
            rows = np.stack([one.probability * self.foretold(before + one.ids) for one in alive])  # (k, v)
            last = [one.inside and one.words == words - 1 for one in alive]
            for one, row, final in zip(alive, rows, last, strict=True):
                if final and one.ids and (chance := float(row @ self.ends)) > 0:
                    found.append(Completion("".join(self.letters[i] for i in one.ids), chance))
            found = sorted(found, key=lambda one: (-one.probability, one.text))[:top]
            least = found[-1].probability if len(found) == top else 0.0
            rows *= np.where(np.array(last)[:, None], self.inner, self.inner | self.between)
            alive = self.best(alive, rows, least, beams)
            if not alive:
                break
        return found

    def best(self, alive: list[Beginning], rows: FloatArray, least: float, beams: int) -> list[Beginning]:
        """The likeliest of all beginnings that are one letter longer, unless there are ``top`` completions that are
        likelier: none gets likelier by going on."""
        places = np.flatnonzero(rows > least)
        places = places[np.argsort(-rows.flat[places], kind="stable")[:beams]]
        longer = []
        for row, letter in zip(*divmod(places, rows.shape[1]), strict=True):
            one, inside = alive[row], bool(self.inner[letter])
            ended = one.words + (one.inside and not inside)
            longer.append(Beginning((*one.ids, int(letter)), float(rows[row, letter]), inside, ended))
        return longer

    def typing(self, lines: Iterable[str], top: int = 5) -> Keystrokes:
        """The keys that lines take if one key takes any of the ``top`` completions as soon as the right one is there.
        Nobody types a letter that another key would not have saved."""
        letters = keys = 0
        for line in lines:
            letters += len(line)
            place = 0
            while place < len(line):
                fits = [one.text for one in self.complete(line[:place], top) if self.right(one.text, line, place)]
                place += max(map(len, fits), default=1)
                keys += 1
        return Keystrokes(letters, keys)

    @staticmethod
    def right(text: str, line: str, place: int) -> bool:
        """Whether a completion is what comes next in a line, up to the end of a word."""
        after = place + len(text)
        return line.startswith(text, place) and (after == len(line) or not in_word(line[after]))


def in_word(letter: str) -> bool:
    """Letters, marks on them, digits, and the apostrophe of "don't"."""
    return unicodedata.category(letter)[0] in "LMN" or letter in APOSTROPHES
