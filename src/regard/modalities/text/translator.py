"""Text in, text out: a translator in use.

It has learned from sentences, so a text is cut into its lines and sentences, each is translated by itself, and all are
put together again. A sentence that is too long to be read at once is cut between its clauses, then between words.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.decode.incremental import IncrementalDecoder, Seq2SeqDecoder
from regard.decode.settings import Decoding
from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import Text, pad_ids
from .writing import GeneratedText, check_stream, generated_text, required_length, text_pieces, write_texts

LONGEST = 200  # tokens of a source that are read at once
BUDGET = 4096  # tokens of a batch, times beams
MOST = 10_000  # tokens that one sentence may become: far more than any does
PART = 1 << 40  # random numbers of a text's second sentence begin so much further on
CLAUSE_ENDS = re.compile(r"(?<=[.!?…;:])\s+")
GAPS = re.compile(r"[^\S\n]+|\s*\n\s*")
SIGNS = 64  # more than may open a sentence
CLOSING, OPENING, STOPS = "\"'”’»)]", "\"'“„‘‚«([¿¡", ".!?…"
SHORTENED = {
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "st",
    "jr",
    "sr",
    "vs",
    "inc",
    "bzw",
    "ca",
    "evtl",
    "ggf",
    "hr",
    "nr",
    "vgl",
}


Progress = Callable[[int, int], object]  # how many sentences are done, and of how many


def no_progress(done: int, every: int) -> None:
    """Nobody asked how far it is."""


@dataclass(frozen=True)
class TextPiece:
    """A piece of a text, and what stood before it: nothing, a space or a new line."""

    text: str
    gap: str


class TranslationModel:
    """A net with its tokenizer and its symbols."""

    def __init__(self, net: Any, text: Text, symbols: Symbols) -> None:
        if symbols.begin is None or not symbols.end:
            raise InputError(
                "this model has no begin token or no end token",
                got=f"begin = {symbols.begin}, end = {list(symbols.end)}",
                fix="convert it again from a folder whose config.json or generation_config.json sets them",
            )
        self.net, self.text, self.symbols, self.begin = net, text, symbols, symbols.begin
        self.literal = text.literal()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """As in training: the tokens, then the end."""
        rows = self.literal.ids([check_text(text) for text in texts])
        return [row if row and row[-1] in self.symbols.end else [*row, self.symbols.end[0]] for row in rows]

    def translate(
        self, texts: Sequence[str], decoding: Decoding, first: int = 0, progress: Progress = no_progress
    ) -> list[list[GeneratedText]]:
        """The best translations of each text. An empty text is an empty translation; a text of which all that is asked
        for cannot be written has none. ``first`` is the number of the first text, by which chance is known."""
        parts = [self.parts(text, together=self.forced(decoding)) for text in texts]
        flat = [part.text for some in parts for part in some]
        numbers = [first + i + PART * j for i, some in enumerate(parts) for j in range(len(some))]
        found = iter(self.short(flat, numbers, decoding, progress))
        return [joined_parts(some, [next(found) for _ in some]) for some in parts]

    def forced(self, decoding: Decoding) -> bool:
        """Whether something is asked of a text as a whole; what no text can be is refused."""
        if (most := max(decoding.longest or 0, decoding.shortest)) > MOST:
            raise InputError(
                "the length of the translation is too large", got=f"{most} tokens", expected=f"at most {MOST} tokens"
            )
        return bool(decoding.prefix or decoding.phrases)

    def stream(self, text: str, decoding: Decoding) -> Iterator[str]:
        """The translation piece by piece, a sentence after the other: the likeliest tokens, or drawn ones."""
        check_stream(decoding)
        return self.told(self.parts(text, together=self.forced(decoding)), decoding)

    def told(self, parts: Sequence[TextPiece], decoding: Decoding) -> Iterator[str]:
        """A gap is told with what stands behind it, so that none is left at either end."""
        gap, begun = "", False
        for number, part in enumerate(parts):
            gap += part.gap
            (row,) = self.encode([part.text])
            for piece in self.pieces(row, PART * number, decoding):
                yield gap + piece if begun else piece
                gap, begun = "", True

    def pieces(self, row: Sequence[int], number: int, decoding: Decoding) -> Iterator[str]:
        longest = self.room(row, decoding)
        return text_pieces(
            lambda: self.writer([row], longest),
            number,
            decoding,
            symbols=self.symbols,
            literal=self.literal,
            longest=longest,
            text=lambda ids: self.text.decode(list(ids)).strip(),
        )

    def parts(self, text: str, *, together: bool = False) -> list[TextPiece]:
        """The sentences of a text, or pieces of them that can be read at once; of an empty text, nothing. What is
        forced upon a text as a whole can only be said if it is read ``together``."""
        if not check_text(text).strip():
            return []
        if together and (size := len(self.encode([text])[0])) > LONGEST:
            raise InputError(
                "the text is too long for a prefix or required phrases",
                got=f"{size} tokens",
                expected=f"at most {LONGEST} tokens, so that it is translated in one piece",
            )
        some = [TextPiece(text.strip(), "")] if together else list(sentences(text))
        return [
            TextPiece(piece, part.gap if i == 0 else " ")
            for part in some
            for i, piece in enumerate(self.packed(CLAUSE_ENDS.split(part.text)))
        ]

    def packed(self, sentences: Sequence[str]) -> Iterator[str]:
        """Neighbours together as long as they fit; one that does not fit by itself is cut between words, or within."""
        held = ""
        for sentence in sentences:
            joined = f"{held} {sentence}" if held else sentence
            if len(self.encode([joined])[0]) <= LONGEST:
                held = joined
                continue
            if held:
                yield held
            held = ""
            if len(self.encode([sentence])[0]) <= LONGEST:
                held = sentence
                continue
            words = sentence.split()
            if len(words) > 1:
                yield from self.packed([" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])])
            else:
                yield from self.packed([sentence[: len(sentence) // 2], sentence[len(sentence) // 2 :]])
        if held:
            yield held

    def short(
        self, texts: Sequence[str], numbers: Sequence[int], decoding: Decoding, progress: Progress
    ) -> list[list[GeneratedText]]:
        """In batches of like length, and back in the order that they came."""
        rows = self.encode(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        width = decoding.nbest if decoding.sampling is not None else decoding.beam.beams
        found: dict[int, list[GeneratedText]] = {}
        while order:
            most = max(BUDGET // (width * (len(rows[order[-1]]) + 8)), 1)
            some, order = order[-most:], order[:-most]
            said = self.batch([rows[i] for i in some], [numbers[i] for i in some], decoding)
            found |= dict(zip(some, said, strict=True))
            progress(len(found), len(rows))
        return [found[i] for i in range(len(rows))]

    @torch.inference_mode()
    def batch(
        self, rows: Sequence[Sequence[int]], numbers: Sequence[int], decoding: Decoding
    ) -> list[list[GeneratedText]]:
        longest = [self.room(row, decoding) for row in rows]
        writer = self.writer(rows, max(longest))
        found = write_texts(writer, numbers, decoding, symbols=self.symbols, literal=self.literal, longest=longest)
        return [
            [replace(one, text=one.text.strip()) for one in (generated_text(x, self.text) for x in own)]
            for own in found
        ]

    def room(self, row: Sequence[int], decoding: Decoding) -> int:
        """How many tokens may be written for a source."""
        least = required_length(decoding, self.literal)
        return decoding.longest or max(2 * len(row) + 16, least)

    def writer(self, rows: Sequence[Sequence[int]], room: int) -> IncrementalDecoder:
        tokens, prompt = pad_ids(rows), torch.full((len(rows), 1), self.begin)
        return IncrementalDecoder(Seq2SeqDecoder(self.net, tokens.ids, tokens.keys), prompt, room=room)


def check_text(text: str) -> str:
    """Half a surrogate pair is no character, and NUL is none that anybody writes."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def sentences(text: str) -> Iterator[TextPiece]:
    start, word, gap = 0, 0, ""
    stripped = text.strip()
    for found in GAPS.finditer(stripped):
        line = "\n" in found.group()
        if line or (ends(stripped[word : found.start()]) and begins(stripped[found.end() : found.end() + SIGNS])):
            yield TextPiece(stripped[start : found.start()], gap)
            start, gap = found.end(), "\n" if line else " "
        word = found.end()
    yield TextPiece(stripped[start:], gap)


def ends(word: str) -> bool:
    """Whether a sentence may end with this word: not with Mr., z.B., an initial or the number of a day."""
    word = word.rstrip(CLOSING).lstrip(OPENING)
    core = word[:-1]
    if not word.endswith(tuple(STOPS)) or not (core or word == "…"):
        return False
    initial = len(core) == 1 and core.isalpha() and core != "I"
    return word[-1] != "." or not (initial or core.isdigit() or "." in core.strip(".") or core.lower() in SHORTENED)


def begins(text: str) -> bool:
    """Whether a sentence may begin so: with a letter or digit, and not with a small letter."""
    first = text.lstrip(OPENING)[:1]
    return first.isalnum() and not first.islower()


def joined_parts(parts: Sequence[TextPiece], found: Sequence[Sequence[GeneratedText]]) -> list[GeneratedText]:
    """The translations of each part, together: the best of all, the second of all, as far as all have one."""
    if not parts:
        return [GeneratedText("", 0.0, 0.0, (), True)]
    if len(parts) == 1:
        return list(found[0])
    return [
        GeneratedText(
            "".join(part.gap + one.text for part, one in zip(parts, own, strict=True)).strip(),
            sum(one.score for one in own),
            sum(one.logp for one in own),
            tuple(i for one in own for i in one.ids),
            all(one.ended for one in own),
            own,
        )
        for own in zip(*found, strict=False)
    ]
