"""The encoding of a text file: found by its first bytes and by what it holds, or given; read as UTF-8 by all others.

A file in another encoding is written anew as UTF-8, once, into the cache: its lines keep their numbers.
"""

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.errors import InputError

from .archives import derived_file, unpacked_file
from .lines import MARK

AUTO, UTF8 = "auto", "utf-8"
CHUNK = 1 << 22
MARKS = {  # the longer ones first: the mark of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    MARK: UTF8,
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# What texts in Latin letters hold beyond ASCII, and how rarely three of these stand side by side in them: a file in
# Cyrillic or Chinese letters is none of these.
WESTERN = "àâäáãåæçéèêëíìîïñóòôöõøœúùûüßÀÂÄÁÃÅÆÇÉÈÊËÍÎÏÑÓÔÖÕØŒÚÛÜ¿¡«»“”„‘’‚–—…•°€£§©®´·×½¼²³ªº\u00a0"
COMMON = np.isin(np.arange(256), np.frombuffer(WESTERN.encode("cp1252"), np.uint8))
COMMON_SHARE, TOGETHER_SHARE = 0.9, 0.1
MANY_VALID = 9  # invalid lines for each valid one that has more than ASCII: in Latin-1, none or few look like UTF-8


def not_encodings(name: str | None) -> list[str]:
    """What is wrong with the name of an encoding in a run file."""
    if name is None or name == AUTO or known_encoding(name):
        return []
    return [f"encoding = {name!r} is not auto or a known encoding, such as utf-8, utf-16 or cp1252"]


def known_encoding(name: str) -> bool:
    try:
        return isinstance(b"".decode(name), str) and codecs.lookup(name) is not None
    except (LookupError, ValueError, TypeError):
        return False


def encoding_of(path: Path, asked: str = AUTO) -> str:
    """The encoding that is asked for, or the one that is found: that of the mark at the beginning; UTF-8 where all of
    the file is, or most of what is more than ASCII; or else Latin-1 with what Windows adds to it, if that gives the
    letters of such texts."""
    plain = unpacked_file(path)
    if asked != AUTO:
        return UTF8 if codecs.lookup(asked).name in ("utf-8", "utf-8-sig", "ascii") else asked
    with open(plain, "rb") as file:
        return encoding_in(file)


def encoding_in(file: BinaryIO) -> str:
    """The one that is found."""
    start = file.read(4)
    if marked := next((name for mark, name in MARKS.items() if start.startswith(mark)), ""):
        return marked
    file.seek(0)
    if is_utf8(file):
        return UTF8
    file.seek(0)
    return western(file)


def decoded_bytes(raw: bytes) -> str:
    """A small text, without a mark at its beginning. UnicodeDecodeError where its encoding is not found."""
    return raw.decode(encoding_in(io.BytesIO(raw))).removeprefix("\ufeff")


def is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := file.read(CHUNK):
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def western(file: BinaryIO) -> str:
    """Of a file that is not UTF-8 throughout: Latin-1 or cp1252, or UTF-8 with bad lines."""
    counts, together = np.zeros(256, np.int64), 0
    valid = invalid = 0
    while line := file.readline(CHUNK):
        if line.isascii():
            continue
        try:
            line.decode("utf-8")
            valid += 1
        except UnicodeDecodeError:
            invalid += 1
            found = np.frombuffer(line, np.uint8)
            counts += np.bincount(found, minlength=256)
            high = found >= 0x80
            together += int((high[:-2] & high[1:-1] & high[2:]).sum())
    counts[1:0x80] = 0
    total = int(counts[1:].sum())
    likely = counts[COMMON].sum() >= COMMON_SHARE * total and together <= TOGETHER_SHARE * total
    if not likely or invalid < MANY_VALID * valid or counts[0]:
        return UTF8
    return "cp1252" if counts[0x80:0xA0].any() else "latin-1"


def utf8_file(path: Path, encoding: str = UTF8) -> Path:
    """The same text as a plain file in UTF-8."""
    plain = unpacked_file(path)
    if encoding == UTF8:
        return plain
    return derived_file(plain, encoding, f"{plain.name}.utf-8", lambda: recoded(path, plain, encoding))


def read_encoded(path: Path, encoding: str = AUTO) -> str:
    """All of a small file, without a mark at its beginning; its ends of lines are newlines."""
    plain = utf8_file(path, encoding_of(path, encoding))
    try:
        return plain.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the file is not UTF-8 text", where=str(path), got=error.reason, fix="save it as UTF-8"
        ) from None


def recoded(path: Path, plain: Path, encoding: str) -> Iterator[bytes]:
    decoder, place = codecs.getincrementaldecoder(encoding)(), 0
    with open(plain, "rb") as file:
        while True:
            chunk = file.read(CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
                yield text.encode("utf-8")
            except UnicodeError as error:
                at = place + getattr(error, "start", 0)
                raise InputError(
                    f"{path.name} is not {encoding} text",
                    where=str(path),
                    got=f"invalid data near byte {at:,}",
                    fix="set data.encoding to the encoding of the file",
                ) from None
            if not chunk:
                return
            place += len(chunk)
