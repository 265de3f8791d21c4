"""Sentences with a tag for each word, in the format of Universal Dependencies.

CoNLL-U, https://universaldependencies.org/format.html: a word a line, ten columns between tabs, a blank line after each
sentence. Lines for what is no word by itself are read and left out: "3-4 don't" before "3 do" and "4 n't", and the
empty nodes "8.1" of the enhanced graph.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.encodings import UTF8, encoding_of, utf8_file
from regard.data.faults import Fault
from regard.data.lines import Lines
from regard.data.tables import LONGEST_LINE, UnfitError, is_text, line_ranges
from regard.errors import InputError

COLUMNS = 10
PLACES = {"upos": 3, "xpos": 4}
NUMBER = "([0-9]{1,9})"
WORD, RANGE, EMPTY = map(re.compile, (NUMBER, f"{NUMBER}-{NUMBER}", rf"{NUMBER}\.{NUMBER}"))

Kind = Literal["upos", "xpos"]  # the universal tags, or the language's own


class TaggedSentence(NamedTuple):
    """One example."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class Sentence:
    """Takes one line after the other, and raises at the first that is wrong."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.words: list[str] = []
        self.tags: list[str] = []
        self.last = 0  # number of the last word
        self.nodes = 0  # empty nodes after it
        self.reach = 0  # the last word of the last range

    def take(self, line: bytes | None) -> None:
        if line is None:
            raise UnfitError(f"the line has more than {LONGEST_LINE} bytes")
        fields = is_text(line).decode("utf-8").split("\t")
        if line.startswith(b"#"):
            if self.last or self.nodes or self.reach:
                raise UnfitError("a comment inside a sentence; the blank line before it may be missing")
            return
        if len(fields) != COLUMNS:
            raise UnfitError(f"{len(fields)} columns instead of {COLUMNS}")
        if WORD.fullmatch(fields[0]):
            self.word(int(fields[0]), fields[1], fields[PLACES[self.kind]])
        elif found := RANGE.fullmatch(fields[0]):
            self.range(int(found[1]), int(found[2]))
        elif found := EMPTY.fullmatch(fields[0]):
            self.node(int(found[1]), int(found[2]))
        else:
            raise UnfitError(f"the id {fields[0][:40]!r} is not a number")

    def word(self, number: int, form: str, tag: str) -> None:
        if number != self.last + 1:
            raise UnfitError(f"the id is {number} instead of {self.last + 1}")
        if not form.strip():
            raise UnfitError("the word is empty")
        if not tag.strip() or tag == "_":
            raise UnfitError(f"the word {form[:40]!r} has no {self.kind}")
        self.last, self.nodes = number, 0
        self.words.append(form)
        self.tags.append(tag)

    def range(self, first: int, last: int) -> None:
        if first != self.last + 1 or first <= self.reach or last < first:
            raise UnfitError(f"the range {first}-{last} does not start at the next word, {self.last + 1}")
        self.reach = last

    def node(self, number: int, place: int) -> None:
        if (number, place) != (self.last, self.nodes + 1):
            raise UnfitError(f"the id is {number}.{place} instead of {self.last}.{self.nodes + 1}")
        self.nodes = place

    def done(self) -> TaggedSentence:
        if not self.words:
            raise UnfitError("the sentence has no words")
        if self.reach > self.last:
            raise UnfitError(f"a range ends at word {self.reach}, but the last word is {self.last}")
        return TaggedSentence(tuple(self.words), tuple(self.tags))


class Sentences:
    """Rows: where each good sentence stands is held in memory, and it is read anew when asked for."""

    def __init__(self, lines: Lines, kind: Kind) -> None:
        self.lines, self.kind = lines, kind
        self.faults: list[Fault] = []
        bounds: list[tuple[int, int]] = []
        counts: list[int] = []
        tags: set[str] = set()
        for first, last, found in self.scan():
            if isinstance(found, Fault):
                self.faults.append(found)
            else:
                bounds.append((first, last))
                counts.append(len(found.words))
                tags.update(found.tags)
        self.bounds: NDArray[np.int64] = np.array(bounds, np.int64).reshape(-1, 2)
        self.lengths: NDArray[np.int32] = np.array(counts, np.int32)  # words
        self.tags = tuple(sorted(tags))

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, i: int) -> TaggedSentence:
        if not 0 <= i < len(self):
            raise IndexError(f"sentence index {i} is out of range for {len(self)} sentences")
        first, last = self.bounds[i].tolist()
        sentence = Sentence(self.kind)
        try:
            for line in split(self.lines.block(first, last)):
                sentence.take(line)
            return sentence.done()
        except UnfitError:  # it was good when the file was opened
            self.lines.changed()

    def where(self, i: int) -> str:
        return f"{self.lines.name}:{int(self.bounds[i, 0]) + 1}"

    def scan(self) -> Iterator[tuple[int, int, TaggedSentence | Fault]]:
        """Each sentence between its first line and the blank one after it; of a bad one only what is wrong first."""
        sentence, first, fault = Sentence(self.kind), -1, None
        for number, line in numbered(self.lines):
            if line is None or line.strip():
                first = number if first < 0 else first
                if fault is None:
                    try:
                        sentence.take(line)
                    except UnfitError as reason:
                        fault = Fault(self.lines.name, number + 1, str(reason))
                continue
            if first >= 0:
                yield first, number, fault or self.end(sentence, number)
                sentence, first, fault = Sentence(self.kind), -1, None
        if first >= 0:  # the last sentence may lack its blank line
            yield first, len(self.lines), fault or self.end(sentence, len(self.lines))

    def end(self, sentence: Sentence, number: int) -> TaggedSentence | Fault:
        try:
            return sentence.done()
        except UnfitError as reason:
            return Fault(self.lines.name, number, str(reason))


def numbered(lines: Lines) -> Iterator[tuple[int, bytes | None]]:
    """Every line with its number from 0, read by blocks; None for one that is too long to be read."""
    for first, last in line_ranges([lines.starts], 0):
        if lines.starts[last] - lines.starts[first] > LONGEST_LINE:
            yield first, None
            continue
        yield from enumerate(split(lines.block(first, last)), first)


def split(block: bytes) -> list[bytes]:
    """A CR before the end of a line may stay: it is in the last column, which is not read."""
    return block.removesuffix(b"\n").split(b"\n")


def open_conllu(path: Path, kind: Kind = "upos", encoding: str = UTF8) -> Sentences:
    """Also packed (.gz, .xz)."""
    if kind not in PLACES:
        raise InputError("unknown kind of tags", got=f"{kind!r}", expected=" or ".join(PLACES))
    return Sentences(Lines(utf8_file(path, encoding_of(path, encoding)), str(path)), kind)
