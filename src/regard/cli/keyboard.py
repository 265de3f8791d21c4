"""A person's keys, one by one, and a few lines of a terminal that change as they are pressed."""

import codecs
import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from regard.look.terminal import text_width

ENTER, BACK, TAKE, UP, DOWN, LEAVE = "enter", "back", "take", "up", "down", "leave"  # longer than any letter
NAMES = {"\n": ENTER, "\r": ENTER, "\x7f": BACK, "\b": BACK, "\t": TAKE, "\x04": LEAVE, "\x1b": LEAVE}
NAMES |= {
    f"\x1b{bracket}{letter}": name for bracket in "[O" for letter, name in zip("ABC", (UP, DOWN, TAKE), strict=True)
}
PICKS = [f"pick {digit}" for digit in range(1, 10)]  # with alt
NAMES |= {f"\x1b{name[-1]}": name for name in PICKS}
PIECE = re.compile(r"\x1b[\[O][0-9;?<=>]*[ -/]*[@-~]|\x1b[0-9]|.", re.DOTALL)
ALONE = 0.05  # seconds after which an escape is one, and not the beginning of something


def named(text: str) -> Iterator[str]:
    """What was pressed: letters as themselves, other keys by name; those that mean nothing are left out."""
    for piece in PIECE.findall(text):
        if piece in NAMES:
            yield NAMES[piece]
        elif piece.isprintable():
            yield piece


def read_keys() -> Iterator[list[str]]:
    """All keys that wait, again and again: what is pasted comes at once."""
    here, decoder = sys.stdin.fileno(), codecs.getincrementaldecoder("utf-8")("replace")
    while raw := os.read(here, 4096):
        text = decoder.decode(raw)
        if text.endswith("\x1b") and select.select([here], [], [], ALONE)[0]:
            text += decoder.decode(os.read(here, 4096))
        yield list(named(text))


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Within, keys come at once and are not shown; afterwards all is as before."""
    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    try:
        tty.setcbreak(here)
        yield
    finally:
        termios.tcsetattr(here, termios.TCSADRAIN, before)


def escape_controls(text: str) -> str:
    """What a terminal may be given: nothing in it is an order."""
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def fitted(text: str, width: int) -> str:
    """As much of the end as fits."""
    while text_width(text) > width:
        text = text[1:]
    return text


def screen(typed: str, below: Sequence[str], width: int) -> str:
    """What to write: a line with the cursor at its end and lines below it, in the place of those that were there."""
    room = max(width - 3, 1)
    line = fitted(escape_controls(typed), room)
    rows = [fitted(escape_controls(row), width - 1) for row in below]
    down, up = "\n" * len(rows), f"\x1b[{len(rows)}A" if rows else ""
    listed = "".join(f"\r\n{row}\x1b[K" for row in rows)
    return f"\r\x1b[J{down}{up}\r> {line}{listed}{up}\r\x1b[{text_width(line) + 2}C"
