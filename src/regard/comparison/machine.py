"""What the machine has, and whether it was left alone while something was measured."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

QUIET = 0.9  # the share of a core that one thread gets where nothing else wants it, or more


@dataclass(frozen=True)
class MemoryLimit:
    total: int  # bytes
    free: int | None  # None where the system does not tell


def memory(path: Path = Path("/proc/meminfo")) -> MemoryLimit:
    """Of the machine, or of the container that this runs in."""
    if not path.exists():
        return MemoryLimit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), None)
    lines = dict(line.split(":") for line in path.read_text().splitlines())
    total, free = (1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    limit = [*limit_of("memory.max"), total][0]
    return MemoryLimit(min(total, limit), min(free, limit))


def room() -> int | None:
    """Bytes that are free, or that there are in all; None where the system tells nothing."""
    try:
        found = memory()
    except (AttributeError, OSError, ValueError, KeyError):
        return None
    return found.total if found.free is None else found.free


def cores() -> int:
    """That this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = limit_of("cpu.max")
    return min(count, max(1, round(quota[0] / quota[1]))) if len(quota) == 2 else count


def limit_of(name: str) -> list[int]:
    """What a container may use; empty where there is no limit."""
    try:
        words = Path("/sys/fs/cgroup", name).read_text().split()
    except OSError:
        return []
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []


def load() -> float | None:
    """How many processes wanted a core in the last minute; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


@dataclass(frozen=True)
class Took(Generic[T]):
    """What a piece of work gave, and its seconds: on the wall's clock, and those that count."""

    value: T
    wall: float
    seconds: float


@dataclass
class Watch:
    """Measures work, and sees how much of a core it got meanwhile.

    On one thread the seconds that count are those of the thread itself, so that other programs do not add theirs; on
    several they are the wall's.
    """

    threads: int = 1
    wall: Callable[[], float] = time.perf_counter
    own: Callable[[], float] = time.thread_time
    load: Callable[[], float | None] = load
    cores: Callable[[], int] = cores
    walls: float = field(default=0.0, init=False)  # sums
    owns: float = field(default=0.0, init=False)

    def __call__(self, work: Callable[[], T]) -> Took[T]:
        wall, own = self.wall(), self.own()
        value = work()
        own, wall = self.own() - own, self.wall() - wall
        self.walls += wall
        self.owns += own
        return Took(value, wall, own if self.threads == 1 else wall)

    @property
    def slowness(self) -> float:
        """Seconds of the wall for each that counts."""
        return self.walls / self.owns if self.threads == 1 and self.owns > 0 else 1.0

    def busy(self) -> str:
        """In words, what else this machine did; empty when it did nothing else."""
        found = []
        if self.threads == 1 and self.walls > 0 and self.owns < QUIET * self.walls:
            found.append(f"this process got {self.owns / self.walls:.0%} of a core")
        wanted, there = self.load(), self.cores()
        if wanted is not None and wanted > there:
            found.append(f"load average {wanted:.1f} on {there} core{'s' * (there > 1)}")
        if not found:
            return ""
        told = f"The machine was busy during the measurement: {', '.join(found)}."
        own = "Times are CPU times of the thread, but caches were shared" if self.threads == 1 else ""
        return f"{told} {own or 'Times are too long'}: for reliable numbers, repeat it on an idle machine."
