"""Ctrl-C and polite kills, heard between two steps."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.5  # seconds: sooner it is torchrun, which passes on the Ctrl-C that a terminal has sent to all


@contextmanager
def signals() -> Iterator[list[float]]:
    """Ctrl-C or a polite kill ends the step at hand first; a second one ends at once."""
    heard: list[float] = []

    def hear(number: int, _: object) -> None:
        heard.append(time.monotonic())
        if heard[-1] - heard[0] > AGAIN:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only that one hears signals
        yield heard
        return
    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
