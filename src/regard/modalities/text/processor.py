"""Text into token ids and back, by the ``tokenizers`` library."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import ByteLevel, Fuse
from tokenizers.models import WordLevel
from torch import Tensor

from regard.errors import CheckpointError, InputError, first_of

from .alphabet import letters_of_vocabulary
from .letters import label_pieces

BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece that stands for one byte


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """A ragged batch, padded on the right."""

    ids: Tensor  # (b, n)
    keys: Tensor | None  # (b, n), False at padding; None where there is none


def pad_ids(rows: Sequence[Sequence[int]]) -> TokenBatch:
    """Ids of each row, filled up with zeros."""
    sizes = np.array([len(row) for row in rows], np.int64)
    keys = np.arange(sizes.max(initial=0)) < sizes[:, None]
    ids = np.zeros(keys.shape, np.int64)
    ids[keys] = np.fromiter((i for row in rows for i in row), np.int64, int(sizes.sum()))
    return TokenBatch(torch.from_numpy(ids), None if keys.all() else torch.from_numpy(keys))


@dataclass(frozen=True, eq=False)
class Framed:
    """A text, or two, between the tokens that a tokenizer puts around them: [CLS] a [SEP] b [SEP]."""

    ids: list[int]
    segments: list[int]  # 0 in the first text, 1 in the second
    free: list[bool]  # False at the tokens that were put there
    words: list[int | None]  # which word each piece is of, in its text
    texts: list[int | None]  # which text it is of, 0 or 1; segments do not tell where a tokenizer has but one
    offsets: list[tuple[int, int]]  # the letters of its text that it stands for
    unread: int = 0  # tokens that there was no room for


class Text:
    """A tokenizer that never pads or cuts by itself: the batch is padded here, and what is too long is an error."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.spelled: Text | None = None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, texts: Sequence[str], longest: int | None = None, shortest: int = 0) -> TokenBatch:
        return pad_ids(self.checked(texts, longest, shortest))

    def checked(self, texts: Sequence[str], longest: int | None = None, shortest: int = 0) -> list[list[int]]:
        """The ids of each text; one that is too short or too long is named by its number."""
        rows = self.ids(texts)
        if few := [i for i, row in enumerate(rows) if len(row) < shortest]:
            raise InputError(
                "a text is too short",
                where=f"text {few[0]}: {texts[few[0]][:40]!r}",
                got=f"{len(rows[few[0]])} tokens",
                expected=f"at least {shortest} tokens",
            )
        width = max((len(row) for row in rows), default=0)
        if longest is not None and width > longest:
            where = max(range(len(rows)), key=lambda i: len(rows[i]))
            raise InputError(
                "a text is too long for this model",
                where=f"text {where}: {texts[where][:40]!r}",
                got=f"{width} tokens",
                expected=f"at most {longest} tokens",
                fix="split it into shorter texts",
            )
        return rows

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Of each text, however long, with the tokens that the tokenizer puts around it."""
        return self.encoded(texts, framed=True)

    def unframed(self, texts: Sequence[str]) -> list[list[int]]:
        """Of each text, and nothing around it."""
        return self.encoded(texts, framed=False)

    def encoded(self, texts: Sequence[str], *, framed: bool) -> list[list[int]]:
        self.whole(texts)
        try:
            found = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=framed)
        except Exception as error:  # the library raises bare Exceptions
            raise self.unreadable(texts, str(error)) from None
        return [encoding.ids for encoding in found]

    def whole(self, texts: Sequence[str]) -> None:
        try:
            for text in texts:
                text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError("a text has an unpaired surrogate, which is not a character") from None

    def framed(self, rows: Sequence[Sequence[str]], longest: int | None = None) -> list[Framed]:
        """One text or two of each row as the tokenizer frames them, cut to ``longest`` in all: of two, the longer."""
        found = self.pieces([text for row in rows for text in row])
        return [self.frame([next(found) for _ in row], longest) for row in rows]

    def framed_parts(self, rows: Sequence[tuple[str, str]], longest: int | None = None) -> list[list[Framed]]:
        """Two texts of each row as the tokenizer frames them. Of a second one that is too long, several parts, each of
        which begins in the middle of the one before."""
        found = self.pieces([text for row in rows for text in row])
        return [self.parts(next(found), next(found), longest) for _ in rows]

    def parts(self, first: Encoding, second: Encoding, longest: int | None) -> list[Framed]:
        if longest is not None:
            asked = len(first.ids) + self.tokenizer.num_special_tokens_to_add(True)
            if (room := longest - asked) < 1:
                raise InputError(
                    "the first of two texts leaves no room for the second",
                    got=f"{asked} tokens",
                    expected=f"fewer than {longest} tokens",
                )
            second.truncate(room, stride=room - max(room // 2, 1))  # their stride is what two parts have in common
        return [self.frame([first, part], None) for part in (second, *second.overflowing)]

    def pieces(self, texts: Sequence[str]) -> Iterator[Encoding]:
        """Of each text, and nothing around it."""
        self.whole(texts)
        try:
            return iter(self.tokenizer.encode_batch(list(texts), add_special_tokens=False))
        except Exception as error:  # the library raises bare Exceptions
            raise self.unreadable(texts, str(error)) from None

    def framed_words(self, rows: Sequence[Sequence[str]], longest: int | None = None) -> list[Framed]:
        """Texts that are cut into words already."""
        self.whole([word for row in rows for word in row])
        try:
            found = self.tokenizer.encode_batch([list(row) for row in rows], True, add_special_tokens=False)
        except Exception as error:
            raise self.unreadable([" ".join(row) for row in rows], str(error)) from None
        return [self.frame([one], longest) for one in found]

    def frame(self, parts: Sequence[Encoding], longest: int | None) -> Framed:
        sizes = [len(part.ids) for part in parts]
        kept = sizes
        if longest is not None:
            room = longest - self.tokenizer.num_special_tokens_to_add(len(parts) == 2)
            kept = shared_room(sizes, max(room, 0))
            for part, size in zip(parts, kept, strict=True):
                part.truncate(size)
        whole = self.tokenizer.post_process(parts[0], parts[1] if len(parts) == 2 else None)
        free = [not x for x in whole.special_tokens_mask]
        unread = sum(sizes) - sum(kept)
        return Framed(whole.ids, whole.type_ids, free, whole.word_ids, whole.sequence_ids, whole.offsets, unread)

    def widths(self) -> list[int] | None:
        """How many bytes of text each token stands for; None where some text is lost between tokens."""
        decoder = self.tokenizer.decoder
        if not isinstance(decoder, ByteLevel | Fuse):
            return None
        special = set(self.tokenizer.get_added_tokens_decoder())
        count = self.tokenizer.get_vocab_size()
        pieces = [self.tokenizer.id_to_token(i) or "" for i in range(count)]
        bytes_ = isinstance(decoder, ByteLevel)
        return [
            0 if i in special else len(piece) if bytes_ else len(piece.encode("utf-8"))
            for i, piece in enumerate(pieces)
        ]

    def literal(self) -> "Text":
        """The same for data, where a text that spells "<end>" means these five letters and not the token."""
        if self.spelled is None or self.spelled.tokenizer.get_vocab_size() != self.tokenizer.get_vocab_size():
            self.spelled = Text.from_bytes(self.to_bytes(), "this tokenizer")
            self.spelled.tokenizer.encode_special_tokens = True
            if not all(self.spelled.can_spell(x.content) for x in self.tokenizer.get_added_tokens_decoder().values()):
                self.spelled.tokenizer.encode_special_tokens = False
        return self.spelled

    def can_spell(self, token: str) -> bool:
        """Whether the letters of a token have tokens of their own: a vocabulary may lack them, and drop them."""
        try:
            found = self.tokenizer.encode(token, add_special_tokens=False).offsets
        except Exception:  # the library raises bare Exceptions; a text of unknown words is refused by name
            return True
        return {i for first, end in found for i in range(first, end)} >= {
            i for i, letter in enumerate(token) if not letter.isspace()
        }

    def id_of(self, token: str) -> int:
        found = self.tokenizer.token_to_id(token)
        if found is None:
            raise InputError(f"the tokenizer has no token {token!r}", fix="use a tokenizer made by `regard train`")
        return found

    def unreadable(self, texts: Sequence[str], error: str) -> InputError:
        """A tokenizer without a token for unknown words fails at them, and does not say which they are."""
        words = dict.fromkeys(word for text in texts for word in self.words(text) if not self.knows(word))
        if not words:
            return InputError("the tokenizer cannot encode a text", got=error[:200])
        vocabulary = self.tokenizer.get_vocab()
        return InputError(
            "the text has words outside the model's vocabulary",
            got=", ".join(first_of([repr(word[:40]) for word in words], 20)),
            expected="words of the vocabulary: "
            + ", ".join(first_of(sorted(vocabulary, key=lambda word: vocabulary[word]), 50)),
            fix="use only words of the vocabulary: this tokenizer has no token for unknown words",
        )

    def words(self, text: str) -> list[str]:
        """The parts into which a text is cut before each is looked up."""
        if self.tokenizer.normalizer is not None:
            text = self.tokenizer.normalizer.normalize_str(text)
        if self.tokenizer.pre_tokenizer is None:
            return text.split()
        return [word for word, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def unknown(self, text: str) -> tuple[str, ...]:
        """The letters for which a tokenizer of single letters has no token, each once. To one of words or pieces few
        texts are wholly known, so of those nothing is told."""
        single = isinstance(self.tokenizer.model, WordLevel) and isinstance(self.tokenizer.decoder, Fuse)
        return tuple(x for x in dict.fromkeys(self.words(text)) if not self.has(x)) if single else ()

    @cached_property
    def alphabet(self) -> frozenset[str]:
        """Every letter that stands whole in some piece of the vocabulary."""
        return letters_of_vocabulary(self.tokenizer)

    def has(self, token: str) -> bool:
        return self.tokenizer.token_to_id(token) is not None

    def knows(self, word: str) -> bool:
        try:
            self.tokenizer.encode(word, add_special_tokens=False)
        except Exception:  # as above
            return False
        return True

    def labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One readable word for each token; where a piece begins a word, with the space before it."""
        pieces = [self.tokenizer.id_to_token(i) or f"<{i}>" for i in ids]
        bytes_ = isinstance(self.tokenizer.decoder, ByteLevel)
        return tuple(from_bytes(piece) if bytes_ else piece.replace("▁", " ") for piece in pieces)

    def sequence_labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The same for tokens that follow each other in a text: a letter that is cut into bytes stays readable."""
        pieces = [self.tokenizer.id_to_token(i) or f"<{i}>" for i in ids]
        bytes_ = isinstance(self.tokenizer.decoder, ByteLevel)
        return label_pieces([raw_bytes(piece) if bytes_ else unmarked(piece) for piece in pieces])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids))

    @property
    def media(self) -> dict[str, "Text"]:
        return {"text": self}

    def to_data(self) -> dict[str, Any]:
        return {"kind": "text"}

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": self.to_bytes()}

    def to_bytes(self) -> bytes:
        return self.tokenizer.to_str(pretty=False).encode("utf-8")

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "Text":
        try:
            return cls(Tokenizer.from_buffer(raw))
        except Exception as error:  # the library raises bare Exceptions
            raise CheckpointError("the tokenizer cannot be read", where=where, got=str(error)[:200]) from None


def from_bytes(piece: str) -> str:
    return raw_bytes(piece).decode("utf-8", "replace")


def raw_bytes(piece: str) -> bytes:
    """What a piece of a byte-level tokenizer says: it writes every byte as a letter, Ã¼ for ü and Ġ for a space."""
    letters = byte_of_letter()
    return bytes(letters[x] for x in piece) if letters.keys() >= set(piece) else piece.encode()


def unmarked(piece: str) -> bytes:
    """The same of one that marks spaces, and has <0xC3> for a byte that no piece begins with."""
    lone = BYTE.fullmatch(piece)
    return bytes([int(lone[1], 16)]) if lone else piece.replace("▁", " ").encode()


@cache
def byte_of_letter() -> dict[str, int]:
    """Of GPT-2: a byte that prints is its own letter, the others are the letters from 256 on."""
    own = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


def shared_room(sizes: Sequence[int], room: int) -> list[int]:
    """How much of one text, or of each of two, there is room for: of two, the shorter stays whole while it can."""
    first, second = sizes[0], sum(sizes[1:])
    kept = min(first, max(room - second, (room + 1) // 2))
    return [kept, min(second, room - kept)][: len(sizes)]
