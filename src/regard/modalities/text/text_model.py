"""What a model that reads texts makes of them: a label, a tag for each word, a vector, an answer."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.look.answers import rank_classes
from regard.modalities.text.tasks.answering import best_spans
from regard.nn.pool import pool_mean

from .framing import Texts, context_places, tagged_places, together
from .processor import Framed, Text

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # words, and every other mark by itself
BATCH = 32
LEAST = 8  # tokens of a context that must fit beside a question


@dataclass(frozen=True)
class TextClassification:
    """A text, or two, with the probability of each label, most likely first."""

    texts: tuple[str, ...]
    label: str
    probability: float
    ranked: tuple[tuple[str, float], ...]
    unread: int = 0  # number of tokens cut from the end of a text that is too long
    unknown: tuple[str, ...] = ()  # characters that are not in the vocabulary


@dataclass(frozen=True)
class TaggedText:
    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty for a word without tokens
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class AnswerSpan:
    text: str  # as it occurs in the context
    start: int  # position of its first character in the context
    end: int  # position after its last character: context[start:end] is the text
    probability: float


@dataclass(frozen=True, eq=False)
class EmbeddedText:
    text: str
    vector: Tensor  # (d,), of length 1


class TextReader:
    """A net that reads whole texts, with its tokenizer; ``length`` is how many tokens it can read, ``segments`` whether
    it has an embedding for each of two texts."""

    def __init__(self, net: Any, text: Text, labels: Sequence[str], length: int | None, segments: bool) -> None:
        self.net, self.text, self.labels, self.length, self.segments = net, text, labels, length, segments
        self.literal = text.literal()

    def classify(self, rows: Sequence[tuple[str, ...]]) -> list[TextClassification]:
        """What is longer than the model reads is cut, as in training, and that is told."""
        framed = self.literal.framed(rows, self.length)
        found = self.read(framed, lambda some: self.net.labelled(some.ids, segments=some.segments, keys=some.keys))
        told = []
        for row, own, logits in zip(rows, framed, found, strict=True):
            named = tuple((self.name(i), chance) for i, chance in rank_classes(logits))
            told.append(TextClassification(row, *named[0], named, own.unread, self.literal.unknown("".join(row))))
        return told

    def tag(self, sentences: Sequence[Sequence[str]], *, last: bool) -> list[TaggedText]:
        """Each sentence is cut into words already. One that is longer than the model reads is read in parts."""
        parts = [(i, some) for i, words in enumerate(sentences) for some in self.parts(words)]
        framed = self.literal.framed_words([some for _, some in parts], self.length)
        found = self.read(framed, lambda some: self.net.tagged(some.ids, segments=some.segments, keys=some.keys))
        told: list[list[tuple[str, str, float]]] = [[] for _ in sentences]
        for (i, words), own, logits in zip(parts, framed, found, strict=True):
            told[i] += self.tags(words, tagged_places(own, len(words), last=last), logits)
        return [tagged_text(rows) for rows in told]

    def tags(
        self, words: Sequence[str], places: Sequence[int | None], logits: Tensor
    ) -> Iterator[tuple[str, str, float]]:
        """Each word with its likeliest tag; one without a token has none.  (n, c)"""
        chances = logits.softmax(-1)
        for word, place in zip(words, places, strict=True):
            if place is None:
                yield word, "", 0.0
                continue
            chance, best = chances[place].max(-1)
            yield word, self.name(int(best)), float(chance)

    def parts(self, words: Sequence[str]) -> Iterator[Sequence[str]]:
        """All words, or as many at a time as fit."""
        start = 0
        while start < len(words):
            end = len(words)
            while self.length is not None and end > start + 1:
                (own,) = self.literal.framed_words([words[start:end]])
                if len(own.ids) <= self.length:
                    break
                end = start + max((end - start) * self.length // len(own.ids), 1)
            yield words[start:end]
            start = end

    def embed(self, texts: Sequence[str], batch: int = BATCH) -> Tensor:
        """The mean of the last layer's states, of length 1.  -> (texts, d)"""
        self.literal.checked(texts, self.length, shortest=1)
        framed = self.literal.framed([(text,) for text in texts])

        def vectors(some: Texts) -> Tensor:
            return F.normalize(pool_mean(self.net.read(some.ids, keys=some.keys), some.keys), dim=-1)

        found = self.read(framed, vectors, batch)
        return torch.stack(found) if found else torch.empty(0, self.net.config.dim)

    def answer(self, question: str, context: str) -> AnswerSpan:
        """The span of the context that answers best. Of a long one, overlapping parts are read."""
        return self.best_part(question, context)[1]

    def best_part(self, question: str, context: str) -> tuple[Framed, AnswerSpan]:
        """The part of the context that holds the best answer, beside the question, and that answer."""
        return self.best_parts([(question, context)])[0]

    def best_parts(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Framed, AnswerSpan]]:
        """The same of several, whose parts are read together."""
        parts = [self.overlapping(question, context) for question, context in pairs]
        flat = [own for some in parts for own in some]
        found = iter(self.read(flat, lambda some: self.net.spanned(some.ids, segments=some.segments, keys=some.keys)))
        answers = [
            [(own, span_in(context, own, next(found))) for own in some]
            for some, (_, context) in zip(parts, pairs, strict=True)
        ]
        return [max(some, key=lambda one: one[1].probability) for some in answers]

    def overlapping(self, question: str, context: str) -> list[Framed]:
        """The context in parts that fit beside the question."""
        asked, read = (len(own.ids) for own in self.literal.pieces([question, context]))
        for name, text, size in (("question", question, asked), ("context", context, read)):
            if not text.strip() or not size:
                fix = f"give a {name} with at least one word that the tokenizer can encode"
                raise InputError(f"the {name} is empty", got=f"{text[:40]!r}", fix=fix)
        asked += self.literal.tokenizer.num_special_tokens_to_add(True)
        if self.length is not None and self.length - asked < LEAST:
            got, most = f"{asked} tokens", self.length - LEAST
            raise InputError("the question leaves no room for the context", got=got, expected=f"at most {most} tokens")
        (parts,) = self.literal.framed_parts([(question, context)], self.length)
        return parts

    def read(self, framed: Sequence[Framed], ask: Callable[[Texts], Tensor], batch: int = BATCH) -> list[Tensor]:
        """Alike lengths together: little padding. What comes of each text is the same in any company."""
        order = sorted(range(len(framed)), key=lambda i: len(framed[i].ids))
        found: dict[int, Tensor] = {}
        with torch.inference_mode():
            for start in range(0, len(order), batch):
                some = order[start : start + batch]
                out = ask(together([framed[i] for i in some]))
                found |= dict(zip(some, out, strict=True))
        return [found[i] for i in range(len(framed))]

    def name(self, i: int) -> str:
        return self.labels[i] if self.labels else str(i)


def tagged_text(rows: Sequence[tuple[str, str, float]]) -> TaggedText:
    return TaggedText(*(zip(*rows, strict=True) if rows else ((), (), ())))


def span_in(context: str, framed: Framed, logits: Tensor) -> AnswerSpan:
    """(n, 2)"""
    spans = best_spans(logits[None, : len(framed.ids)], torch.tensor([context_places(framed)]))
    start, end = bounds(context, framed.offsets[int(spans.first)][0], framed.offsets[int(spans.last)][1])
    return AnswerSpan(context[start:end], start, end, float(spans.chances))


def bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """Of some letters without the space around them: tokens may begin with it."""
    own = text[start:end]
    start += len(own) - len(own.lstrip())
    return start, start + len(own.strip())


def words_of(text: str) -> list[str]:
    return WORD.findall(text)
