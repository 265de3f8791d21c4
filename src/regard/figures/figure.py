"""What every figure module is made of.

A module has TITLE, DECKS, CLAIM, COST (seconds) and SEED, written as plain literals so that they can be read without
importing it, and three functions: ``compute() -> Numbers``, ``draw(numbers) -> Figure`` and
``holds(numbers) -> list[Check]``.
Only ``compute`` does work; the other two read what it returned, also after a round trip through JSON.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure

Numbers = dict[str, Any]  # what JSON can hold


@dataclass(frozen=True)
class Check:
    """One thing that a figure claims: what was found, what must hold, and whether it does."""

    name: str
    got: float | int | str | bool
    expected: str
    ok: bool


class FigureModule(Protocol):
    TITLE: str
    DECKS: tuple[str, ...]
    CLAIM: str
    COST: float
    SEED: int
    compute: Callable[[], Numbers]
    draw: Callable[[Numbers], Figure]
    holds: Callable[[Numbers], list[Check]]


def above(name: str, got: float, bound: float) -> Check:
    return Check(name, got, f"> {bound:g}", got > bound)


def below(name: str, got: float, bound: float) -> Check:
    return Check(name, got, f"< {bound:g}", got < bound)


def within(name: str, got: float, low: float, high: float) -> Check:
    return Check(name, got, f"{low:g} to {high:g}", low <= got <= high)


def close(name: str, got: float, expected: float, tolerance: float) -> Check:
    return Check(name, got, f"{expected:g} to within {tolerance:g}", abs(got - expected) <= tolerance)


def equal(name: str, got: float | int | str | bool, expected: float | int | str | bool) -> Check:
    return Check(name, got, str(expected), got == expected)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The same random numbers every time, and nobody else's are touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def plain(x: torch.Tensor, digits: int = 5) -> Any:
    """A tensor as (lists of) numbers of so many significant digits, for JSON."""

    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(part) for part in value]
        return float(f"{value:.{digits}g}") if isinstance(value, float) else value

    return short(x.detach().tolist())
