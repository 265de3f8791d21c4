"""Texts between their first and last tokens, as batches: for what reads a text as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .conllu import Tagged
from .labelled import LabelledText
from .text import Framed, Text, padded


@dataclass(frozen=True, eq=False)
class Texts:
    ids: Tensor  # (b, n)
    segments: Tensor | None  # (b, n), 1 in a second text; None where there is none
    keys: Tensor | None  # (b, n), False at padding


@dataclass(frozen=True, eq=False)
class LabelledBatch(Texts):
    labels: Tensor  # (b,)


@dataclass(frozen=True, eq=False)
class TaggedBatch(Texts):
    tags: Tensor  # (b, n), -1 where a piece stands for no word
    words: Tensor  # (b,): how many each text has, also those that were cut off


def together(rows: Sequence[Framed]) -> Texts:
    found, segments = padded([row.ids for row in rows]), None
    if any(max(row.segments, default=0) for row in rows):
        segments = padded([row.segments for row in rows]).ids
    return Texts(found.ids, segments, found.keys)


@dataclass(frozen=True, eq=False)
class Couples:
    """Two texts of each row that mean the same, the first ones and the second ones."""

    ids: Tensor  # (b, n)
    keys: Tensor | None
    other_ids: Tensor  # (b, m)
    other_keys: Tensor | None


class CoupleMaker:
    def __init__(self, text: Text, longest: int | None) -> None:
        self.text, self.longest = text.literal(), longest

    def __call__(self, rows: Sequence[tuple[str, ...]]) -> Couples:
        one, two = (together(self.text.framed([(row[i],) for row in rows], self.longest)) for i in range(2))
        return Couples(one.ids, one.keys, two.ids, two.keys)


class LabelMaker:
    """What is longer than the model reads is cut."""

    def __init__(self, text: Text, longest: int | None) -> None:
        self.text, self.longest = text.literal(), longest

    def __call__(self, rows: Sequence[LabelledText]) -> LabelledBatch:
        found = self.text.framed([row.texts for row in rows], self.longest)
        texts = together(found)
        return LabelledBatch(texts.ids, texts.segments, texts.keys, torch.tensor([row.label for row in rows]))


class TagMaker:
    """One piece of each word, its first or its last, has the word's tag."""

    def __init__(self, text: Text, longest: int | None, names: Sequence[str], *, last: bool) -> None:
        self.text, self.longest, self.last = text.literal(), longest, last
        self.numbers = {name: i for i, name in enumerate(names)}

    def __call__(self, rows: Sequence[Tagged]) -> TaggedBatch:
        found = self.text.framed_words([row.words for row in rows], self.longest)
        tags = []
        for row, own in zip(rows, found, strict=True):
            numbers = [-1] * len(own.ids)
            for word, place in enumerate(tagged_places(own, len(row.words), last=self.last)):
                if place is not None:
                    numbers[place] = self.numbers.get(row.tags[word], -1)
            tags.append(numbers)
        texts = together(found)
        wanted = padded([[tag + 1 for tag in row] for row in tags]).ids - 1  # what is filled up has no tag either
        words = torch.tensor([len(row.words) for row in rows])
        return TaggedBatch(texts.ids, texts.segments, texts.keys, wanted, words)


def tagged_places(framed: Framed, count: int, *, last: bool) -> list[int | None]:
    """Where each word's first or last piece stands; None for one that was cut off, or of which nothing is left."""
    found: list[int | None] = [None] * count
    for place, word in enumerate(framed.words):
        if word is not None and framed.free[place] and (last or found[word] is None):
            found[word] = place
    return found
