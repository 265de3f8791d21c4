"""A text that is small enough to be held in memory as a whole."""

from pathlib import Path

from regard.errors import InputError

from .encodings import UTF8, encoding_of, utf8_file
from .lines import MARK

LARGEST_TEXT = 1 << 25  # bytes


def read_lines(path: Path) -> list[str]:
    """All lines but blank ones, from a plain or a packed file."""
    return [line for line in read_text(path, LARGEST_TEXT).split("\n") if line.strip()]


def read_text(path: Path, largest: int | None = None, encoding: str = UTF8) -> str:
    """As it is, but for a mark at its beginning and CRs at ends of lines. What is no text is refused, and where."""
    plain = utf8_file(path, encoding_of(path, encoding))
    size = plain.stat().st_size
    if largest is not None and size > largest:
        raise InputError(
            f"{path.name} is too large",
            where=str(path),
            got=f"{size:,} bytes",
            expected=f"at most {largest:,} bytes",
            fix="use a part of the file",
        )
    try:
        raw = plain.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name} cannot be read", where=str(path), got=error.strerror or str(error)) from None
    try:
        text = raw.removeprefix(MARK).decode("utf-8")
        broken = text.find("\0")
    except UnicodeDecodeError as error:
        text, broken = "", error.start
    if broken >= 0:
        fix = "if the file is text in another encoding, convert it to UTF-8 or set data.encoding"
        got = f"invalid data at byte {broken:,}"
        raise InputError(f"{path.name} is not a text file", where=str(path), got=got, expected="UTF-8 text", fix=fix)
    if not text.strip():
        raise InputError(f"{path.name} contains no text", where=str(path), got=f"{size:,} bytes")
    return text.replace("\r\n", "\n").removesuffix("\r")
