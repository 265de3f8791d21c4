"""Lines from a pipe, and how far they are: in place on a terminal, a line now and then in a log, all on stderr."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

TOGETHER = 256  # lines of a pipe that are sorted by length and worked on before the first is printed


def chunks() -> Iterator[list[str]]:
    """Lines of standard input: one by one from a person, many at a time from a file. What is no text is replaced."""
    if sys.stdin is None:
        from regard.errors import InputError

        raise InputError("there is no standard input to read from", fix="give the text as an argument")
    source, person = sys.stdin.buffer, sys.stdin.isatty()
    follow = None if person else Follow(sys.stderr, size_of_input())
    while some := [line for _ in range(1 if person else TOGETHER) if (line := source.readline())]:
        yield [line.decode("utf-8", "replace").rstrip("\r\n") for line in some]
        if follow is not None:
            follow.add(len(some), sum(map(len, some)))
    if follow is not None:
        follow.close()


def size_of_input() -> int:
    """Of a file in bytes; 0 where nobody knows."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class Follow:
    """Says nothing of what is done at once."""

    def __init__(self, out: TextIO, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        from regard.train.progress import Forgiving

        self.out, self.total, self.clock = Forgiving(out), total, clock
        self.here = self.out.isatty()
        self.began = self.shown = clock()
        self.lines = self.bytes = 0

    def add(self, lines: int, size: int) -> None:
        self.lines, self.bytes = self.lines + lines, self.bytes + size
        if self.clock() - self.shown >= (1.0 if self.here else 10.0):
            self.show()

    def close(self) -> None:
        if self.shown > self.began:
            self.show("\n")

    def show(self, end: str = "") -> None:
        from regard.train.words import amount, duration

        self.shown = self.clock()
        took = self.shown - self.began
        parts = [f"{self.lines:,} lines", f"{amount(self.lines / took)} lines/s"]
        if self.total > self.bytes > 0:
            parts.append(f"{duration(took * (self.total - self.bytes) / self.bytes)} left")
        text = "  ".join(parts)
        self.out.write(f"\r{text}\x1b[K{end}" if self.here else f"{text}\n")
        self.out.flush()
