"""Text in, text out: a translator in use.

What is too long to be read at once is cut between sentences, then between words, and put together again.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.data.text import Text, padded
from regard.decode.settings import Decoding
from regard.decode.writer import Translator, Writer
from regard.errors import InputError
from regard.interop.symbols import Symbols

from .writing import Said, said, write

LONGEST = 200  # tokens of a source that are read at once
BUDGET = 4096  # tokens of a batch, times beams
SENTENCE_ENDS = re.compile(r"(?<=[.!?…;:])\s+")


class Translating:
    """A net with its tokenizer and its symbols."""

    def __init__(self, net: Any, text: Text, symbols: Symbols) -> None:
        if symbols.begin is None or not symbols.end:
            raise InputError(
                "this model does not tell where a text begins and ends",
                got=f"begin = {symbols.begin}, end = {list(symbols.end)}",
                fix="convert it anew from a folder whose config.json or generation_config.json tells",
            )
        self.net, self.text, self.symbols, self.begin = net, text, symbols, symbols.begin
        self.literal = text.literal()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """As in training: the tokens, then the end."""
        rows = self.literal.ids([clean(text) for text in texts])
        return [row if row and row[-1] in self.symbols.end else [*row, self.symbols.end[0]] for row in rows]

    def translate(self, texts: Sequence[str], decoding: Decoding) -> list[list[Said]]:
        """The best translations of each text. An empty text is an empty translation."""
        parts = [self.parts(text) for text in texts]
        flat = [part for some in parts for part in some]
        found = iter(self.short(flat, decoding))
        return [whole([next(found) for _ in some]) for some in parts]

    def parts(self, text: str) -> list[str]:
        """The text itself, or pieces of it that can be read at once; of an empty one, nothing."""
        if not clean(text).strip():
            return []
        if len(self.encode([text])[0]) <= LONGEST:
            return [text]
        return list(self.packed(SENTENCE_ENDS.split(text)))

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

    def short(self, texts: Sequence[str], decoding: Decoding) -> list[list[Said]]:
        """In batches of like length, and back in the order that they came."""
        rows = self.encode(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        width = 1 if decoding.sampling is not None else decoding.beam.beams
        found: dict[int, list[Said]] = {}
        while order:
            most = max(BUDGET // (width * (len(rows[order[-1]]) + 8)), 1)
            some, order = order[-most:], order[:-most]
            found |= dict(zip(some, self.batch([rows[i] for i in some], some, decoding), strict=True))
        return [found[i] for i in range(len(rows))]

    @torch.inference_mode()
    def batch(self, rows: Sequence[Sequence[int]], numbers: Sequence[int], decoding: Decoding) -> list[list[Said]]:
        tokens = padded(rows)
        longest, prompt = decoding.longest or 2 * tokens.ids.shape[1] + 16, torch.full((len(rows), 1), self.begin)

        def start() -> Writer:
            return Writer(Translator(self.net, tokens.ids, tokens.keys), prompt, room=longest)

        found = write(start, numbers, decoding, symbols=self.symbols, literal=self.literal, longest=longest)
        return [[replace(one, text=one.text.strip()) for one in (said(x, self.text) for x in own)] for own in found]


def clean(text: str) -> str:
    """Half a surrogate pair is no character, and NUL is none that anybody writes."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def whole(parts: Sequence[Sequence[Said]]) -> list[Said]:
    """The best of each part, together; of a text that was read at once, all of its translations."""
    if not parts:
        return [Said("", 0.0, 0.0, (), True)]
    if len(parts) == 1:
        return list(parts[0])
    best = [part[0] for part in parts]
    return [
        Said(
            " ".join(one.text for one in best),
            sum(one.score for one in best),
            sum(one.logp for one in best),
            tuple(i for one in best for i in one.ids),
            all(one.ended for one in best),
        )
    ]
