"""SentencePiece models, and those of llama2.c, as tokenizers of the ``tokenizers`` library.

SentencePiece (Kudo and Richardson, 2018), https://arxiv.org/abs/1808.06226. Its files are protocol buffers; the few
fields that matter are read here, with suspicion, and every other one is passed over.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from regard.storage.documents import read_bytes
from regard.storage.untrusted import refuse_file

SPACE = "▁"  # how a piece writes a space
NORMAL, UNKNOWN, CONTROL, GIVEN, UNUSED, BYTE = range(1, 7)
UNIGRAM, PAIRS = 1, 2
MOST_PIECES = 2_000_000  # pieces that no honest model has


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int = NORMAL


@dataclass
class Pieces:
    """The content of a tokenizer model file."""

    pieces: list[Piece] = field(default_factory=list)
    algorithm: int = UNIGRAM
    characters: bytes = b""  # how characters are normalised, compiled
    prefix: bool = True  # a space before the text
    squeezed: bool = True  # spaces at the ends are dropped, and several become one

    def unknown(self) -> int | None:
        return next((i for i, piece in enumerate(self.pieces) if piece.kind == UNKNOWN), None)


def read_pieces(path: Path) -> Pieces:
    """A SentencePiece model (tokenizer.model, spiece.model)."""
    found, raw = Pieces(), read_bytes(path)
    try:
        for number, value in fields(raw):
            if number == 1 and isinstance(value, bytes):
                found.pieces.append(piece_of(value))
                if len(found.pieces) > MOST_PIECES:
                    refuse_file(path, f"the model has more than {MOST_PIECES} pieces, the limit")
            elif number == 2 and isinstance(value, bytes):
                found.algorithm = next((x for n, x in fields(value) if n == 3 and isinstance(x, int)), UNIGRAM)
            elif number == 3 and isinstance(value, bytes):
                spec = dict(fields(value))
                characters, prefix, squeezed = spec.get(2, b""), spec.get(3, 1), spec.get(4, 1)
                found.characters = characters if isinstance(characters, bytes) else b""
                found.prefix, found.squeezed = bool(prefix), bool(squeezed)
    except (ValueError, struct.error, IndexError) as error:
        refuse_file(path, f"not a SentencePiece model: {str(error)[:100]}")
    if not found.pieces or found.algorithm not in (UNIGRAM, PAIRS):
        refuse_file(path, "not a SentencePiece model with pieces: it is empty, or a word or character model")
    return found


def piece_of(raw: bytes) -> Piece:
    told = dict(fields(raw))
    text, score, kind = told.get(1, b""), told.get(2, 0.0), told.get(3, NORMAL)
    if not isinstance(text, bytes) or not isinstance(score, float) or not isinstance(kind, int):
        raise ValueError("a piece has fields of the wrong types")
    if not math.isfinite(score):
        raise ValueError("a piece has a score that is not a finite number")
    return Piece(text.decode("utf-8"), score, kind)


def fields(raw: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: number and value, which is a whole number, a float of four bytes, or bytes."""
    at = 0
    while at < len(raw):
        key, at = whole_number(raw, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = whole_number(raw, at)
            yield number, value
        elif wire == 2:
            size, at = whole_number(raw, at)
            if at + size > len(raw):
                raise ValueError("a field is longer than the file")
            yield number, raw[at : at + size]
            at += size
        elif wire == 5:
            yield number, float(struct.unpack_from("<f", raw, at)[0])
            at += 4
        elif wire == 1:
            at += 8
        else:
            raise ValueError(f"a field has the unknown wire type {wire}")


def whole_number(raw: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the last one without a mark."""
    value = 0
    for shift in range(0, 70, 7):
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number is not terminated")


def read_llama2c(path: Path) -> Pieces:
    """llama2.c's tokenizer.bin: for each id a score, a length and the bytes; ids 3 to 258 stand for single bytes."""
    raw, at = read_bytes(path), 4
    pieces: list[Piece] = []
    try:
        while at < len(raw):
            score, size = struct.unpack_from("<fi", raw, at)
            at += 8
            if not 0 <= size <= len(raw) - at or not math.isfinite(score):
                raise ValueError("a piece is longer than the file, or has no valid score")
            i, text = len(pieces), raw[at : at + size].decode("utf-8", "replace")
            at += size
            if i < 3:
                pieces.append(Piece(("<unk>", "<s>", "</s>")[i], score, UNKNOWN if i == 0 else CONTROL))
            elif i < 3 + 256:
                pieces.append(Piece(f"<0x{i - 3:02X}>", score, BYTE))
            else:
                pieces.append(Piece(text.replace(" ", SPACE), score))
    except (ValueError, struct.error) as error:
        refuse_file(path, f"not a llama2.c tokenizer: {str(error)[:100]}")
    if len(pieces) < 3 + 256:
        refuse_file(path, f"not a llama2.c tokenizer: it has only {len(pieces)} pieces")
    return Pieces(pieces, PAIRS, prefix=True, squeezed=False)


def tokenizer_of(found: Pieces, *, begin: str | None = None, end: str | None = None) -> Tokenizer:
    """The same tokenizer; with ``begin`` and ``end``, tokens that every text is put between."""
    tokenizer = Tokenizer(unigram(found) if found.algorithm == UNIGRAM else pairs(found))
    steps: list[normalizers.Normalizer] = []
    if found.characters:
        steps.append(normalizers.Precompiled(found.characters))
    if found.squeezed:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if found.algorithm == PAIRS:  # pieces may hold several words: the text is not cut before
        steps += [normalizers.Prepend(SPACE)] if found.prefix else []
        steps.append(normalizers.Replace(" ", SPACE))
    else:
        scheme = "always" if found.prefix else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.normalizer = normalizers.Sequence(steps)
    spoken = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*spoken, *([decoders.Strip(" ", 1, 0)] if found.prefix else [])])
    special = [piece.text for piece in found.pieces if piece.kind in (UNKNOWN, CONTROL)]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in special])
    given = [piece.text for piece in found.pieces if piece.kind == GIVEN]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in given])
    around(tokenizer, begin, end)
    return tokenizer


def around(tokenizer: Tokenizer, begin: str | None, end: str | None) -> None:
    """Every text between two tokens."""
    words = [word for word in (begin, end) if word is not None]
    if not words:
        return
    single = " ".join([*([begin] if begin else []), "$A", *([end] if end else [])])
    pair = " ".join([single, *([begin] if begin else []), "$B", *([end] if end else [])])
    ids = [(word, tokenizer.token_to_id(word)) for word in words]
    tokenizer.post_processor = TemplateProcessing(single=single, pair=pair.replace("$B", "$B:1"), special_tokens=ids)


def unigram(found: Pieces) -> models.Unigram:
    fallback = any(piece.kind == BYTE for piece in found.pieces)
    return models.Unigram([(piece.text, piece.score) for piece in found.pieces], found.unknown(), fallback)


def pairs(found: Pieces) -> models.BPE:
    """Of two neighbours, those are joined first whose piece has the best score: this is the order of merges."""
    vocabulary = {piece.text: i for i, piece in enumerate(found.pieces)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece in found.pieces:
        if piece.kind != NORMAL:
            continue
        for cut in range(1, len(piece.text)):
            left, right = piece.text[:cut], piece.text[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-piece.score, vocabulary[left], vocabulary[right], left, right))
    unknown = found.unknown()
    return models.BPE(
        vocabulary,
        [(left, right) for *_, left, right in sorted(merges)],
        unk_token=None if unknown is None else found.pieces[unknown].text,
        fuse_unk=True,
        byte_fallback=any(piece.kind == BYTE for piece in found.pieces),
    )
