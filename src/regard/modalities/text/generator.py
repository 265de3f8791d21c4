"""Text that goes on: a decoder in use, token by token or as a whole."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.decode.incremental import CausalDecoder, IncrementalDecoder, WindowedDecoder
from regard.decode.settings import Decoding
from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import Text, pad_ids
from .translator import check_text
from .writing import GeneratedText, check_stream, generated_text, required_length, text_pieces, write_texts

TOKENS = 200  # that are written, unless told otherwise


class Generating:
    """A net with its tokenizer and its symbols; ``length`` is how many tokens it can read at once."""

    def __init__(self, net: Any, text: Text, symbols: Symbols, length: int | None) -> None:
        self.net, self.text, self.symbols, self.length = net, text, symbols, length
        self.literal = text.literal()

    def encode(self, prompt: str) -> list[int]:
        """Of a prompt that is too long, the end counts."""
        row = self.whole(prompt)
        return row if self.length is None else row[-max(self.length - 1, 1) :]

    def whole(self, prompt: str) -> list[int]:
        """A model that has a token for the beginning of a text is given it. Where the same token ends texts (GPT-2),
        only an empty prompt begins with it."""
        row, begin = self.literal.ids([check_text(prompt)])[0], self.symbols.begin
        if begin is not None and row[:1] != [begin] and (begin not in self.symbols.end or not row):
            row = [begin, *row]
        if not row:
            raise InputError("the prompt is empty, and this model has no begin-of-text token")
        return row

    def surplus(self, prompt: str) -> int:
        """How many of a prompt's tokens are more than can be read."""
        return len(self.whole(prompt)) - len(self.encode(prompt))

    def unknown(self, *texts: str) -> tuple[str, ...]:
        """The letters of some texts that the model has no token for, where its tokens are letters."""
        return self.literal.unknown("".join(map(check_text, texts)))

    def longest(self, decoding: Decoding) -> int:
        """How many tokens may be written behind a prompt."""
        return decoding.longest or max(TOKENS, required_length(decoding, self.literal))

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[list[GeneratedText]]:
        """The texts that each prompt goes on with, the best first: a batch gives the same as its prompts one by one."""
        rows = [self.encode(prompt) for prompt in prompts]
        found: dict[int, list[GeneratedText]] = {}
        for size in sorted({len(row) for row in rows}):  # those of one length: all are read again at the same time
            some = [i for i, row in enumerate(rows) if len(row) == size]
            found |= dict(zip(some, self.batch([rows[i] for i in some], some, decoding), strict=True))
        return [found[i] for i in range(len(rows))]

    @torch.inference_mode()
    def batch(
        self, rows: Sequence[Sequence[int]], numbers: Sequence[int], decoding: Decoding
    ) -> list[list[GeneratedText]]:
        longest = self.longest(decoding)
        found = write_texts(
            self.writer(rows, longest),
            numbers,
            decoding,
            symbols=self.symbols,
            literal=self.literal,
            longest=[longest] * len(rows),
        )
        return [
            [replace(generated_text(one, self.text), text=self.after(row, one.ids)) for one in own]
            for row, own in zip(rows, found, strict=True)
        ]

    def stream(self, prompt: str, decoding: Decoding) -> Iterator[str]:
        """The text piece by piece, each as soon as it is chosen: the likeliest, or drawn. No search can do that."""
        check_stream(decoding)
        row = self.encode(prompt)
        longest = self.longest(decoding)
        return text_pieces(
            lambda: self.writer([row], longest),
            0,
            decoding,
            symbols=self.symbols,
            literal=self.literal,
            longest=longest,
            text=lambda ids: self.after(row, ids),
        )

    @torch.inference_mode()
    def likelihood(self, prompt: str, text: str) -> float:
        """The mean log-probability of the tokens of a text behind a prompt."""
        given, whole = self.whole(prompt), self.whole(prompt + text)
        start = next((i for i, (a, b) in enumerate(zip(given, whole, strict=False)) if a != b), len(given))
        if start >= len(whole):
            raise InputError("the text has no tokens to score", got=repr(text[:40]))
        cut = 0 if self.length is None else max(len(whole) - 1 - self.length, 0)
        start, whole = start - cut, whole[cut:]
        states = self.net.read(torch.tensor([whole[:-1]]))
        logits = self.net.logits(states)[0, max(start, 1) - 1 :].log_softmax(-1)
        wanted = torch.tensor(whole[max(start, 1) :])
        return float(logits.gather(1, wanted[:, None]).mean())

    def writer(self, rows: Sequence[Sequence[int]], longest: int) -> IncrementalDecoder:
        tokens = pad_ids(rows)
        room = longest if self.length is None else min(longest, self.length - len(rows[0]))
        reader = CausalDecoder if getattr(self.net, "stepwise", True) else WindowedDecoder
        return IncrementalDecoder(reader(self.net, self.length), tokens.ids, tokens.keys, room=room)

    def after(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """What was written behind the prompt: a first word by itself would lose the space before it."""
        return self.text.decode([*prompt, *ids])[len(self.text.decode(list(prompt))) :]
