"""What one sees while a model trains: a bar on a terminal, plain lines in a log, JSON lines for machines.

No reporter ever stops a run: where the reader has left, or cannot show a character, training goes on.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from .formatting import format_age, format_bytes, format_count, format_duration, json_number, number, printable_text

if TYPE_CHECKING:
    from rich.text import Text

Clock = Callable[[], float]
NARROW = 60  # columns: fewer than these, and words give way to numbers


@dataclass(frozen=True)
class Status:
    """How far a run is, after a step."""

    step: int
    steps: int
    loss: float
    best: float | None  # of the metric that the best checkpoint is known by
    speed: float  # units a second
    unit: str  # tokens, samples ...
    memory: int  # bytes
    left: float | None  # seconds; None while nobody knows
    saved_age: float | None  # seconds since the last checkpoint; None when there is none
    extra: Mapping[str, float] = field(default_factory=dict)  # more metrics, shown where there is room

    @property
    def last(self) -> bool:
        return self.step >= self.steps


class Reporter(Protocol):
    def update(self, status: Status) -> None:
        """After every step; each reporter shows only as many as can be read."""
        ...

    def note(self, text: str) -> None:
        """Something to keep: a warning, a piece of advice."""
        ...

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        """Something that happened: facts for machines, a text for people."""
        ...

    def close(self) -> None:
        """The run has ended: show the last status, and give the terminal back."""
        ...


def make_reporter(machine: bool, stream: TextIO | None = None) -> Reporter:
    """JSON for machines, a bar on a terminal that can move its cursor, plain lines anywhere else; of many processes,
    the first one tells it."""
    if os.environ.get("RANK", "0") != "0":
        return SilentReporter()
    out = SafeStream(sys.stdout if stream is None else stream)
    if machine:
        return JsonLines(out)
    if out.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"):
        return Bar(out)
    return LineReporter(out)


class SilentReporter:
    """For all processes but the first."""

    def update(self, status: Status) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        pass

    def close(self) -> None:
        pass


class JsonLines:
    """One object a line, with its kind in ``event``."""

    def __init__(self, out: "SafeStream", every: float = 1.0, clock: Clock = time.monotonic) -> None:
        self.out, self.turn = out, Turn(every, clock)

    def update(self, status: Status) -> None:
        if self.turn.now(status):
            self.say({"event": "step", **vars(status)})

    def note(self, text: str) -> None:
        self.say({"event": "note", "text": text})

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        self.say({"event": event, **facts})

    def close(self) -> None:
        if (status := self.turn.missed()) is not None:
            self.say({"event": "step", **vars(status)})

    def say(self, event: Mapping[str, Any]) -> None:
        self.out.write(json.dumps(json_number(event), allow_nan=False) + "\n")
        self.out.flush()


class LineReporter:
    """For logs: a line now and then."""

    def __init__(self, out: "SafeStream", every: float = 10.0, clock: Clock = time.monotonic) -> None:
        self.out, self.turn = out, Turn(every, clock)

    def update(self, status: Status) -> None:
        if self.turn.now(status):
            self.show(status)

    def note(self, text: str) -> None:
        self.out.write(printable_text(text) + "\n")
        self.out.flush()

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        self.note(text)

    def close(self) -> None:
        if (status := self.turn.missed()) is not None:
            self.show(status)

    def show(self, status: Status) -> None:
        self.note("  ".join([f"step {count(status)}", *facts(status), *remaining(status), *extras(status)]))


class Bar:
    """Two lines at the foot of a terminal, redrawn in place; notes stand above them."""

    def __init__(self, out: "SafeStream", every: float = 0.1, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        self.turn, self.fine = Turn(every, clock), out.can_show("━╸─·")
        self.console = Console(file=cast(TextIO, out), highlight=False, markup=False, emoji=False)
        self.live: Live | None = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")

    def update(self, status: Status) -> None:
        if self.turn.now(status):
            self.show(status)

    def note(self, text: str) -> None:
        self.console.print(printable_text(text), soft_wrap=True)  # a path must stay in one piece to be copied

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        self.note(text)

    def close(self) -> None:
        if self.live is None:
            return
        if (status := self.turn.missed()) is not None:
            self.show(status)
        self.live.stop()
        self.live = None

    def show(self, status: Status) -> None:
        from rich.console import Group

        if self.live is not None:
            width = self.console.width - 1  # a full line would make some terminals go on to the next
            self.live.start()  # with the first status, not before: until then there is nothing to draw
            self.live.update(Group(*self.draw(status, width)), refresh=True)

    def draw(self, status: Status, width: int) -> list["Text"]:
        from rich.text import Text

        whole = count(status) if width < NARROW else f"step {count(status)}"
        ahead = [f"{math.floor(100 * share(status))}%", *remaining(status, width)]
        room = width - len(" ".join([whole, *ahead])) - 1
        first = Text(no_wrap=True, overflow="crop")
        if room < 4:  # no bar
            first.append(fitted([whole, *ahead], width, " "))
        else:
            full, half, rest = "━╸─" if self.fine else "##-"
            halves = int(2 * room * share(status))
            done = full * (halves // 2) + half * (halves % 2)
            first.append(f"{whole} ", "bold").append(done, "cyan").append(rest * (room - len(done)), "dim")
            first.append(" " + " ".join(ahead))
        second = Text(fitted([*facts(status, width), *extras(status)], width), no_wrap=True, overflow="crop")
        second.highlight_regex(r"(?<![\d.])[a-zA-Z/]+", "dim")  # the numbers stand out
        return [first, second]


class Turn:
    """Which statuses are shown: the first, the last of the run, and between them one in so many seconds."""

    def __init__(self, every: float, clock: Clock) -> None:
        self.every, self.clock = every, clock
        self.shown = -math.inf  # when
        self.held: Status | None = None  # the newest, while it has not been shown

    def now(self, status: Status) -> bool:
        now = self.clock()
        due = status.last or now - self.shown >= self.every
        self.held = None if due else status
        self.shown = now if due else self.shown
        return due

    def missed(self) -> Status | None:
        status, self.held = self.held, None
        return status


class SafeStream:
    """A stream that never fails: what it cannot show becomes a question mark, and once nobody reads, it is silent."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.open = stream, True

    def write(self, text: str) -> int:
        known = text if self.can_show(text) else text.encode(self.encoding, "replace").decode(self.encoding)
        self.attempt(lambda: self.stream.write(known))
        return len(text)

    def flush(self) -> None:
        self.attempt(self.stream.flush)

    def attempt(self, action: Callable[[], object]) -> None:
        if not self.open:
            return
        try:
            action()
        except BlockingIOError:  # a reader who is slow for the moment
            pass
        except (OSError, ValueError):  # a closed pipe, a lost terminal, a full disk; a closed file
            self.open = False
            try:  # what the stream still holds must not fail when the program ends
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)
            except (OSError, ValueError):
                pass

    def can_show(self, text: str) -> bool:
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def isatty(self) -> bool:
        try:
            return self.stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        return self.stream.fileno()

    @property
    def encoding(self) -> str:
        return getattr(self.stream, "encoding", None) or "utf-8"


# What is said, and how ---------------------------------------------------------------------------


def facts(status: Status, width: int = 80) -> list[str]:
    """The most wanted first: a narrow terminal has room for a few."""
    best = [] if status.best is None else [f"best {number(status.best)}"]
    unit = "" if width < NARROW else f" {printable_text(status.unit)}"
    saved = "not saved yet" if status.saved_age is None else f"saved {format_age(status.saved_age)} ago"
    return [
        f"loss {number(status.loss)}",
        *best,
        f"{format_count(status.speed)}{unit}/s",
        format_bytes(status.memory),
        saved,
    ]


def remaining(status: Status, width: int = 80) -> list[str]:
    if status.left is None or status.last:
        return []
    return [format_duration(status.left) if width < NARROW else f"{format_duration(status.left)} left"]


def extras(status: Status) -> list[str]:
    return [f"{printable_text(name)} {value:.4g}" for name, value in status.extra.items()]


def count(status: Status) -> str:
    return f"{status.step:,}/{status.steps:,}"


def share(status: Status) -> float:
    return min(1.0, max(0.0, status.step / status.steps)) if status.steps > 0 else 1.0


def fitted(parts: Sequence[str], width: int, between: str = "  ") -> str:
    """As many as there is room for; one that is too long makes way for those behind it."""
    from rich.cells import cell_len

    text = ""
    for part in parts:
        longer = text + between + part if text else part
        text = longer if cell_len(longer) <= width else text
    return text or parts[0][:width]


# Measures ----------------------------------------------------------------------------------------


class Pace:
    """How fast it goes: a mean over all steps, of which the last ``memory`` or so count. It is a mean from the start: a
    slow first step weighs no more than the others."""

    def __init__(self, steps: int, memory: float = 50.0, clock: Clock = time.monotonic) -> None:
        self.steps, self.keep, self.clock = steps, 1 - 1 / memory, clock
        self.began = self.last = clock()
        self.ticks = self.seconds = self.amount = 0.0  # sums, the older the smaller

    def tick(self, amount: float) -> None:
        """A step is done, with so many tokens or samples."""
        now = self.clock()
        took, self.last = now - self.last, now
        self.ticks = self.keep * self.ticks + 1
        self.seconds = self.keep * self.seconds + took
        self.amount = self.keep * self.amount + amount

    def rest(self) -> None:
        """What was done since the last step (evaluating, saving) does not count."""
        self.last = self.clock()

    @property
    def speed(self) -> float:
        """Tokens or samples a second."""
        return self.amount / self.seconds if self.seconds > 0 else 0.0

    def left(self, step: int) -> float | None:
        """Seconds until the end."""
        return (self.steps - step) * self.seconds / self.ticks if self.ticks else None

    def measured(self) -> dict[str, float]:
        per_step = self.seconds / self.ticks if self.ticks else 0.0
        return {"seconds_per_step": per_step, "per_second": self.speed, "elapsed": self.last - self.began}


def process_memory() -> int:
    """Bytes that this process holds now; once it computes on a GPU, the most that it has held there."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    elif sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # its peak: the system tells no more
    else:
        return 0
