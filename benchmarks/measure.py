"""Times as ratios: contenders take turns in one process, and what is reported is the median of each round's ratio."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Timing:
    """One contender against the first one: a ratio above 1 means that it is faster."""

    name: str
    milliseconds: float  # median
    ratio: float  # median of the first one's time / its own, round by round
    low: float  # quartiles of that ratio
    high: float


@dataclass(frozen=True)
class Result:
    what: str
    threads: int
    rounds: int
    load: float  # of the machine before it began; above the number of cores, do not trust small differences
    timings: list[Timing]

    def lines(self) -> list[str]:
        busy = "  (the machine was busy)" if self.load > (os.cpu_count() or 1) else ""
        head = f"{self.what}: threads {self.threads}, rounds {self.rounds}, load {self.load:.1f}{busy}"
        width = max(len(timing.name) for timing in self.timings)
        rows = [
            f"  {t.name:<{width}}  {t.milliseconds:9.2f} ms   x {t.ratio:.2f}  ({t.low:.2f} to {t.high:.2f})"
            for t in self.timings
        ]
        return [head, *rows]

    def data(self) -> dict[str, object]:
        return asdict(self)


def race(what: str, contenders: dict[str, Callable[[], object]], *, rounds: int, threads: int) -> Result:
    """The first contender is the peer that the others are compared with."""
    load = os.getloadavg()[0]
    for run in contenders.values():  # warm up: allocations, caches, lazy imports
        run()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        order = list(contenders) if turn % 2 == 0 else list(reversed(contenders))
        for name in order:
            start = time.perf_counter()
            contenders[name]()
            times[name].append(time.perf_counter() - start)
    return compare(what, times, load=load, threads=threads)


def compare(what: str, times: dict[str, list[float]], *, load: float, threads: int) -> Result:
    """Seconds of each contender, round by round; the first one is what the others are compared with."""
    first = next(iter(times.values()))
    timings = []
    for name, own in times.items():
        ratios = sorted(a / b for a, b in zip(first, own, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        timings.append(Timing(name, 1000 * statistics.median(own), middle, low, high))
    return Result(what, threads, len(first), load, timings)
