"""Texts between their first and last tokens, as batches: for what reads a text as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .conllu import TaggedSentence
from .labelled import LabelledText
from .processor import Framed, Text, pad_ids
from .questions import Question


@dataclass(frozen=True, eq=False)
class Texts:
    ids: Tensor  # (b, n)
    segments: Tensor | None  # (b, n), 1 in a second text; None where there is none
    keys: Tensor | None  # (b, n), False at padding


@dataclass(frozen=True, eq=False)
class LabelledBatch(Texts):
    labels: Tensor  # (b,)

    def logits(self, net: Any) -> Tensor:
        """What a net says to it.  -> (b, classes)"""
        found: Tensor = net.labelled(self.ids, segments=self.segments, keys=self.keys)
        return found


@dataclass(frozen=True, eq=False)
class TaggedBatch(Texts):
    tags: Tensor  # (b, n), -1 where a piece stands for no word
    words: Tensor  # (b,): how many each text has, also those that were cut off


@dataclass(frozen=True, eq=False)
class AnswerBatch(Texts):
    """Questions beside their contexts; where several parts of a long context are read, each is a row."""

    context: Tensor  # (b, n), True at the tokens of the context
    starts: Tensor  # (b,): the answer's first token; -1 in a part from which it is not learned
    ends: Tensor  # (b,): its last
    offsets: Tensor  # (b, n, 2): the letters of its text that each token stands for
    numbers: Tensor  # (b,): which of the questions each row is of
    questions: tuple[Question, ...]


def together(rows: Sequence[Framed]) -> Texts:
    found, segments = pad_ids([row.ids for row in rows]), None
    if any(max(row.segments, default=0) for row in rows):
        segments = pad_ids([row.segments for row in rows]).ids
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

    def __call__(self, rows: Sequence[TaggedSentence]) -> TaggedBatch:
        found = self.text.framed_words([row.words for row in rows], self.longest)
        tags = []
        for row, own in zip(rows, found, strict=True):
            numbers = [-1] * len(own.ids)
            for word, place in enumerate(tagged_places(own, len(row.words), last=self.last)):
                if place is not None:
                    numbers[place] = self.numbers.get(row.tags[word], -1)
            tags.append(numbers)
        texts = together(found)
        wanted = pad_ids([[tag + 1 for tag in row] for row in tags]).ids - 1  # what is filled up has no tag either
        words = torch.tensor([len(row.words) for row in rows])
        return TaggedBatch(texts.ids, texts.segments, texts.keys, wanted, words)


class AnswerMaker:
    """Of a context that is longer than the model reads, one part: that which holds most of the answer and, of several,
    the one with most text on both sides of it. Where ``whole``, all parts are read, as when a model is used: to pick
    the right one tells something of the answer."""

    def __init__(self, text: Text, longest: int | None, *, whole: bool) -> None:
        self.text, self.longest, self.whole = text.literal(), longest, whole

    def __call__(self, rows: Sequence[Question]) -> AnswerBatch:
        asked = self.short([row.question for row in rows])
        pairs = [(question, row.context) for question, row in zip(asked, rows, strict=True)]
        found = self.text.framed_parts(pairs, self.longest)
        framed: list[Framed] = []
        spans: list[tuple[int, int]] = []
        numbers: list[int] = []
        for number, (row, parts) in enumerate(zip(rows, found, strict=True)):
            held = [answer_places(part, row) for part in parts]
            best = max(range(len(parts)), key=lambda i: fitness(parts[i], held[i]))
            for i in range(len(parts)) if self.whole else [best]:
                framed.append(parts[i])
                spans.append(held[i] if i == best else NOWHERE)
                numbers.append(number)
        texts = together(framed)
        offsets = [pad_ids([[pair[side] for pair in one.offsets] for one in framed]).ids for side in range(2)]
        return AnswerBatch(
            texts.ids,
            texts.segments,
            texts.keys,
            context=pad_ids([context_places(one) for one in framed]).ids.bool(),
            starts=torch.tensor([first for first, _ in spans]),
            ends=torch.tensor([last for _, last in spans]),
            offsets=torch.stack(offsets, -1),
            numbers=torch.tensor(numbers),
            questions=tuple(rows),
        )

    def short(self, questions: Sequence[str]) -> Sequence[str]:
        """At most half of what is read: the rest is for the context."""
        if self.longest is None:
            return questions
        most = max((self.longest - self.text.tokenizer.num_special_tokens_to_add(True)) // 2, 1)
        ends = [own.offsets[:most][-1:] for own in self.text.pieces(questions)]  # none where nothing is left
        return [question[: end[0][1]] if end else "" for question, end in zip(questions, ends, strict=True)]


NOWHERE = (-1, -1)


def context_places(framed: Framed) -> list[bool]:
    """True at the tokens of the second text."""
    return [number == 1 for number in framed.texts]


def answer_places(framed: Framed, row: Question) -> tuple[int, int]:
    """The first and the last token that stand for a letter of the answer, as far as this part goes."""
    start, end = row.start, row.start + len(row.answer)
    own = [
        place
        for place, (inside, (first, last)) in enumerate(zip(context_places(framed), framed.offsets, strict=True))
        if inside and first < last and first < end and last > start
    ]
    return (own[0], own[-1]) if own else NOWHERE


def fitness(framed: Framed, held: tuple[int, int]) -> tuple[int, int]:
    """How much of the answer a part holds, and how much there is to be read on both sides of it."""
    if held == NOWHERE:
        return 0, 0
    places = [place for place, inside in enumerate(context_places(framed)) if inside]
    return held[1] - held[0] + 1, min(held[0] - places[0], places[-1] - held[1])


def tagged_places(framed: Framed, count: int, *, last: bool) -> list[int | None]:
    """Where each word's first or last piece stands; None for one that was cut off, or of which nothing is left."""
    found: list[int | None] = [None] * count
    for place, word in enumerate(framed.words):
        if word is not None and framed.free[place] and (last or found[word] is None):
            found[word] = place
    return found
