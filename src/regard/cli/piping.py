"""Lines from a pipe, and how far they are: in place on a terminal, a line now and then in a log, all on stderr."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from regard.errors import first_of

TOGETHER = 256  # lines of a pipe that are sorted by length and worked on before the first is printed
PAUSE = 0.2  # seconds after a pipe's first line in which others may join it
SHOWN = 20  # letters that a notice names
LONG = 50_000  # letters of a text that takes so long that it is told beforehand
MARK = b"\xef\xbb\xbf"  # of the order of bytes, as some editors write it before a text


def given(texts: list[str] | None) -> list[str] | None:
    """The texts of a command line; a dash alone is standard input, as in other tools."""
    return None if texts == ["-"] else texts


def chunks(follow: "Follow | None" = None) -> Iterator[list[str]]:
    """Lines of standard input: one by one from a person, many at a time from a file, from a pipe what is there. What
    is no text is replaced, and that is told at the end."""
    if sys.stdin is None:
        from regard.errors import InputError

        raise InputError("standard input is not available", fix="pass the text as an argument")
    follow = follow or following()
    number = 0
    broken: list[int] = []
    for some in lots():
        lines = [some[0].removeprefix(MARK), *some[1:]] if number == 0 else some
        texts = [line.decode("utf-8", "replace").rstrip("\r\n") for line in lines]
        broken += [number + i for i, line in enumerate(lines, 1) if not is_text(line)]
        warn_of_long(texts, number)
        yield texts
        number += len(some)
        follow.add(len(some), sum(map(len, some)))
    follow.close()
    if broken:
        many = "1 line is" if len(broken) == 1 else f"{len(broken):,} lines are"
        note(f"{many} not valid UTF-8, starting with line {broken[0]}: invalid bytes were replaced with U+FFFD")


def lots() -> Iterator[list[bytes]]:
    """The lines that are worked on together."""
    if (handle := handle_of_pipe()) is not None:
        yield from arriving(handle)
        return
    source, most = sys.stdin.buffer, 1 if sys.stdin.isatty() else TOGETHER
    while some := [line for _ in range(most) if (line := source.readline())]:
        yield some


def handle_of_pipe() -> int | None:
    """Of what may pause: a file never does, and a person's lines are worked on one by one in any case."""
    try:
        handle = sys.stdin.fileno()
        pauses = not stat.S_ISREG(os.fstat(handle).st_mode) and not os.isatty(handle)
    except (OSError, ValueError, AttributeError):
        return None
    return handle if pauses else None


def arriving(handle: int) -> Iterator[list[bytes]]:
    """The lines that come within a moment of the first, so that a pipe that pauses is not waited for."""
    lines: list[bytes] = []
    begun: list[bytes] = []  # the pieces of a line that has not ended
    until = 0.0
    while True:
        if len(lines) >= TOGETHER or (lines and not readable(handle, until - time.monotonic())):
            yield lines[:TOGETHER]
            lines, until = lines[TOGETHER:], time.monotonic() + PAUSE
            continue
        if not (more := os.read(handle, 1 << 16)):
            break
        until = until if lines else time.monotonic() + PAUSE
        *ends, rest = more.split(b"\n")
        for end in ends:
            lines.append(b"".join((*begun, end, b"\n")))
            begun = []
        begun.append(rest)
    if last := b"".join(begun):
        lines.append(last)
    if lines:
        yield lines


def readable(handle: int, seconds: float) -> bool:
    """Whether something comes, or the end, before so many seconds have passed."""
    import select

    try:
        return bool(select.select([handle], [], [], max(seconds, 0.0))[0])
    except (OSError, ValueError):  # nobody knows of such a handle: to read it may wait
        return True


def is_text(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def warn_of_long(texts: Sequence[str], before: int = 0) -> None:
    """A sign of life ahead of much work; one word without a space is cut in any place."""
    for number, text in enumerate(texts, before + 1):
        if len(text) > LONG:
            word = max(map(len, text.split()), default=0)
            kind = f", {word:,} of them in a single word" if word > LONG else ""
            note(f"text {number} has {len(text):,} characters{kind}: it is processed in parts, which takes a while")


def note(text: str) -> None:
    if sys.stderr is not None:
        print(f"regard: {text}", file=sys.stderr, flush=True)


def note_unknown(letters: Sequence[str]) -> None:
    """Those that a model has no token for, if there are any."""
    if letters:
        many = "1 character is" if len(letters) == 1 else f"{len(letters):,} characters are"
        note(f"{many} not in the model's vocabulary: {', '.join(first_of([repr(x) for x in letters], SHOWN))}")


def size_of_input() -> int:
    """Of a file in bytes; 0 where nobody knows."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def following() -> "Follow":
    """Of standard input. Where a person types it, or sees what becomes of it, nothing needs to be said."""
    seen = (sys.stdin is not None and sys.stdin.isatty()) or (sys.stdout is not None and sys.stdout.isatty())
    return Follow(None if seen else sys.stderr, size_of_input())


class Follow:
    """Says nothing of what is done at once."""

    def __init__(
        self, out: TextIO | None, total: int, clock: Callable[[], float] = time.monotonic, what: str = "lines"
    ) -> None:
        from regard.train.progress import SafeStream

        self.out, self.total, self.clock = None if out is None else SafeStream(out), total, clock
        self.what = what
        self.here = self.out is not None and self.out.isatty()
        self.began = self.shown = clock()
        self.lines = self.bytes = self.told = 0

    def add(self, lines: int, size: int) -> None:
        self.lines, self.bytes = self.lines + lines, self.bytes + size
        self.now_and_then(self.text)

    def within(self, done: int, every: int) -> None:
        """How far it is with the lines that are worked on now."""
        self.now_and_then(lambda: f"{self.text()}  {done:,} of {every:,} sentences in this batch".strip())

    def now_and_then(self, text: Callable[[], str]) -> None:
        if self.clock() - self.shown >= (1.0 if self.here else 10.0):
            self.show(text())

    def close(self) -> None:
        """The last word, unless it was said already."""
        if self.shown == self.began:
            return
        if self.lines != self.told:
            self.show(self.text())
        if self.here and self.out is not None:
            self.out.write("\n")
            self.out.flush()

    def text(self) -> str:
        from regard.train.formatting import format_count, format_duration

        took = self.clock() - self.began
        if not self.lines or not took:
            return ""
        parts = [f"{self.lines:,} {self.what}", f"{format_count(self.lines / took)} {self.what}/s"]
        if self.total > self.bytes > 0:
            parts.append(f"{format_duration(took * (self.total - self.bytes) / self.bytes)} left")
        return "  ".join(parts)

    def show(self, text: str) -> None:
        self.shown, self.told = self.clock(), self.lines
        if self.out is not None:
            self.out.write(f"\r{text}\x1b[K" if self.here else f"{text}\n")
            self.out.flush()
