"""What every figure module is made of.

A module has TITLE, DECKS, CLAIM, EXPECTED, FOUND, COST (seconds) and SEED, written as plain literals so that they can
be read without importing it, and three functions: ``compute() -> Numbers``, ``draw(numbers) -> Figure`` and
``checks(numbers) -> list[Check]``. Only ``compute`` does work; the other two read what it returned, also after a round
trip through JSON.

EXPECTED is what the lecture or the paper says will be seen: it is fixed before the run and never moved. FOUND is what
the recorded run found, with its numbers. The checks ask whether what is EXPECTED was seen, and the verdict follows from
them alone. A figure that only repeats numbers of others has no checks, and no verdict: it is quoted; so is one of which
nothing was expected before its run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch
from matplotlib.figure import Figure

Numbers = dict[str, Any]  # what JSON can hold
Verdict = Literal["confirmed", "partly", "contradicted"]


@dataclass(frozen=True)
class Check:
    """One check: the computed value, the expected value, whether it passes, and in how many of the random starts."""

    name: str
    got: float | int | str | bool
    expected: str
    ok: bool
    seeds: tuple[int, int] | None = None
    side: bool = False  # a condition of what is expected, or something beside it


def aside(check: Check) -> Check:
    """The same check as a precondition (such as: the training has converged) or a side result, not the expectation
    itself."""
    return replace(check, side=True)


def verdict(checks: Sequence[Check]) -> Verdict | None:
    """The verdict of these checks: contradicted if no check of the expectation itself passes, None if there is no such
    check."""
    main = [check.ok for check in checks if not check.side]
    if not main:
        return None
    if all(check.ok for check in checks):
        return "confirmed"
    return "partly" if any(main) else "contradicted"


def agreement(checks: Sequence[Check]) -> str:
    """The number of starts that agree, in the check with the fewest: "4 of 5"; "" with a single start."""
    shares = [check.seeds for check in checks if check.seeds is not None]
    if not shares:
        return ""
    agree, of = min(shares, key=lambda share: share[0] / share[1])
    return f"{agree} of {of}"


class FigureModule(Protocol):
    TITLE: str
    DECKS: tuple[str, ...]
    CLAIM: str
    EXPECTED: str
    FOUND: str
    COST: float
    SEED: int
    compute: Callable[[], Numbers]
    draw: Callable[[Numbers], Figure]
    checks: Callable[[Numbers], list[Check]]


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


# Checks of several starts: each holds if more than half of them agree, and tells how many do.


def in_starts(name: str, agree: Sequence[bool], expected: str = "so") -> Check:
    count = sum(agree)
    return Check(
        name, f"{count} of {len(agree)}", f"{expected} in most starts", 2 * count > len(agree), (count, len(agree))
    )


def starts_above(name: str, got: Sequence[float], bound: float) -> Check:
    return told_each(got, in_starts(name, [one > bound for one in got], f"> {bound:g}"))


def starts_below(name: str, got: Sequence[float], bound: float) -> Check:
    return told_each(got, in_starts(name, [one < bound for one in got], f"< {bound:g}"))


def starts_at_least(name: str, got: Sequence[float], bound: float) -> Check:
    return told_each(got, in_starts(name, [one >= bound for one in got], f">= {bound:g}"))


def starts_at_most(name: str, got: Sequence[float], bound: float) -> Check:
    return told_each(got, in_starts(name, [one <= bound for one in got], f"<= {bound:g}"))


def starts_within(name: str, got: Sequence[float], low: float, high: float) -> Check:
    return told_each(got, in_starts(name, [low <= one <= high for one in got], f"{low:g} to {high:g}"))


def told_each(got: Sequence[float], check: Check) -> Check:
    """The same with the number of each start in place of their count."""
    return replace(check, got=", ".join(f"{one:.4g}" for one in got))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context manager with a fixed random seed; the global random state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def plain(x: torch.Tensor, digits: int = 5) -> Any:
    """A tensor as nested lists of numbers, rounded to significant digits, for JSON."""

    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(part) for part in value]
        return float(f"{value:.{digits}g}") if isinstance(value, float) else value

    return short(x.detach().tolist())
