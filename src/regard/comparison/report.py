"""What a comparison found: rows of numbers, a table of them, and files."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.train.formatting import format_count, json_number

from .measure import cost_exponent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_SUFFIXES = (".png", ".svg", ".html", ".json")
EXACT = "softmax"  # what the others are held against
CLEARLY = 0.05  # faster, as a logarithm


@dataclass(frozen=True)
class Spread:
    """Several rounds of one measurement."""

    median: float
    low: float  # quartiles
    high: float
    rounds: int


def spread(found: Sequence[float]) -> Spread:
    low, _, high = statistics.quantiles(found, n=4, method="inclusive") if len(found) > 1 else (found[0],) * 3
    return Spread(statistics.median(found), low, high, len(found))


@dataclass(frozen=True)
class Point:
    """One attention at one length; what was not measured is None, and the reason says why."""

    length: int
    step: Spread | None = None  # seconds, forward and backward
    forward: Spread | None = None  # seconds
    step_bytes: int | None = None  # at most at once, besides the weights
    forward_bytes: int | None = None
    written: Spread | None = None  # tokens a second, one text, at about this length
    error: float | None = None  # of what comes out, relative to exact attention with the same weights, before training
    reason: str = ""


@dataclass(frozen=True)
class Lesson:
    """The loss on what is held out, while it learned."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of training alone
    losses: list[float] = field(default_factory=list)
    error: float | None = None  # as that of a point, with the weights that exact attention has learned
    reason: str = ""

    def at(self, seconds: float) -> float | None:
        """The loss after so many seconds, on a straight line between what was measured."""
        curve = list(zip(self.seconds, self.losses, strict=True))
        for (before, start), (after, end) in pairwise(curve):
            if before <= seconds <= after:
                return start + (end - start) * (seconds - before) / max(after - before, 1e-12)
        return None


@dataclass
class ComparisonRow:
    name: str
    idea: str
    points: list[Point] = field(default_factory=list)
    lesson: Lesson = field(default_factory=Lesson)
    parameters: int | None = None
    reason: str = ""  # why it cannot be built or run at all

    def growth(self, cost: Callable[[Point], float | None]) -> float | None:
        """The exponent p of cost ~ length^p; None while there are not two lengths."""
        pairs = [(point.length, found) for point in self.points if (found := cost(point))]
        return cost_exponent(*zip(*pairs, strict=True)) if len(pairs) > 1 else None

    def loss(self, step: int) -> float | None:
        return dict(zip(self.lesson.steps, self.lesson.losses, strict=True)).get(step)


@dataclass(frozen=True)
class Measure:
    """What a point tells of a cost, and how it is shown."""

    title: str
    cost: Callable[[Point], float | None]
    show: Callable[[float], str]
    grows: bool = True
    rounds: Callable[[Point], Spread | None] = lambda x: None  # of what was measured more than once


def middle(found: Spread | None) -> float | None:
    return None if found is None else found.median


def milliseconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def kilobytes(size: float) -> str:
    unit, letters = next(pair for pair in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if size >= pair[0] or pair[0] == 1e3)
    return f"{size / unit:.0f} {letters}" if size >= 100 * unit else f"{size / unit:.3g} {letters}"


MEASURES = {
    "step": Measure("time per training step", lambda x: middle(x.step), milliseconds, rounds=lambda x: x.step),
    "forward": Measure("time per forward pass", lambda x: middle(x.forward), milliseconds, rounds=lambda x: x.forward),
    "step_bytes": Measure("peak memory per training step, excluding weights", lambda x: x.step_bytes, kilobytes),
    "forward_bytes": Measure("peak memory per forward pass", lambda x: x.forward_bytes, kilobytes),
    "written": Measure("cached decoding, tokens per second", lambda x: middle(x.written), format_count, grows=False),
    "error": Measure(
        "output error before training, relative to exact attention with the same weights",
        lambda x: x.error,
        lambda x: f"{x:.1e}" if 0 < x < 1e-3 else f"{x:.3f}" if x else "0",
        grows=False,
    ),
}


@dataclass
class Comparison:
    """Result of a comparison. ``print`` shows the table; ``save`` writes the plot, a page with both, or the numbers."""

    model: str
    unit: str  # what lengths count: tokens or patches
    lengths: list[int]
    rows: list[ComparisonRow]
    data: str
    threads: int
    seed: int
    lesson_length: int
    lesson_rows: int
    steps: int = 0  # that all have learned for
    seconds: float | None = None  # that all have learned for: those of the fastest
    took: float = 0.0  # of the wall, all in all
    busy: str = ""
    notes: list[str] = field(default_factory=list)
    stopped: bool = False  # by Ctrl-C: the rest is not there

    def equal_time(self, row: ComparisonRow) -> float | None:
        return None if self.seconds is None else row.lesson.at(self.seconds)

    def crossing(self, row: ComparisonRow) -> float | None:
        """Length from which a step is faster than with exact attention, interpolated log-linearly between two lengths;
        None if it is not clearly faster at the longest length, beyond the variation of both."""
        exact = next((one for one in self.rows if one.name == EXACT), None)
        if exact is None or row is exact:
            return None
        theirs = {x.length: x.step for x in exact.points if x.step}
        timed = [(x.length, x.step) for x in row.points if x.step and x.length in theirs]
        both = [(length, math.log(step.median / theirs[length].median)) for length, step in timed]
        if not both or both[-1][1] >= -CLEARLY or timed[-1][1].high >= theirs[timed[-1][0]].low:
            return None
        for (a, slower), (b, faster) in reversed(list(pairwise(both))):
            if slower > 0 >= faster:
                return float(math.exp(math.log(a) + math.log(b / a) * slower / (slower - faster)))
        return float(both[0][0])

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, including derived numbers."""
        found = asdict(self)
        for row, told in zip(self.rows, found["rows"], strict=True):
            told["growth"] = {name: row.growth(x.cost) for name, x in MEASURES.items() if x.grows}
            told["loss_after_equal_steps"] = row.loss(self.steps)
            told["loss_after_equal_time"] = self.equal_time(row)
            told["faster_from"] = self.crossing(row)
        return dict(json_number(found))

    def __str__(self) -> str:
        from .table import lines

        return "\n".join(lines(self))

    def picture(self) -> "Figure":
        from .picture import draw

        return draw(self)

    def save(self, path: str | Path) -> None:
        """Save a plot (.png, .svg), a page with the table and the plot (.html), or all numbers (.json)."""
        from .picture import page, rendered

        path = check_save_path(path)
        if path.suffix == ".json":
            raw = (json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n").encode()
        elif path.suffix == ".html":
            raw = page(self).encode()
        else:
            raw = rendered(self, path.suffix[1:])
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(raw)
        part.replace(path)


def check_save_path(path: str | Path) -> Path:
    """Whether a comparison could be written there, before it is made."""
    path = Path(path)
    if path.suffix not in REPORT_SUFFIXES:
        raise InputError(
            "unsupported output format for a comparison", got=str(path), expected=" or ".join(REPORT_SUFFIXES)
        )
    if not path.parent.is_dir():
        raise InputError("folder not found", where=str(path.parent))
    return path
