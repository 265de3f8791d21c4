"""How a contract is asked, and what is said of it."""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class BrokenError(AssertionError):
    """A contract that is not kept: what was computed, what was expected, where."""


class NothingError(Exception):
    """A contract that asks nothing of this subject, and why."""


@dataclass(frozen=True)
class Contract:
    """``says`` is a sentence that holds; ``check`` raises where it does not."""

    says: str
    check: Callable[[], object]


@dataclass(frozen=True)
class Verdict:
    subject: str  # "attention 'mine'"
    contract: str
    holds: bool
    words: str  # the failure, or why the contract asks nothing of the subject
    tried: bool = True

    def line(self) -> str:
        if not self.tried:
            return f"not tried  {self.subject}: {self.contract} ({self.words})"
        if self.holds:
            return f"holds  {self.subject}: {self.contract}"
        return f"FAILS  {self.subject}: {self.contract}\n       {self.words}"

    def data(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "contract": self.contract,
            "holds": self.holds,
            "tried": self.tried,
            "words": self.words,
        }


def asked(subject: str, contracts: Iterable[Contract]) -> list[Verdict]:
    """Each by itself, from the same random numbers; what raises has failed, and does not keep the others from being
    asked."""
    return [verdict_of(subject, contract) for contract in contracts]


def verdict_of(subject: str, contract: Contract) -> Verdict:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            contract.check()
        except NothingError as reason:
            return Verdict(subject, contract.says, True, str(reason), tried=False)
        except Exception as error:
            return Verdict(subject, contract.says, False, in_words(error))
    return Verdict(subject, contract.says, True, "")


def in_words(error: Exception) -> str:
    """An error that nobody expected is told with the line that it came from."""
    if isinstance(error, BrokenError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"


def demand(holds: bool, words: str) -> None:
    if not holds:
        raise BrokenError(words)


def demand_close(found: Tensor, wanted: Tensor, what: str, expected: str, error: float = 1e-10) -> None:
    """``what`` is found, ``expected`` is what it must be equal to."""
    found, wanted = found.detach(), wanted.detach()
    if found.shape != wanted.shape:
        raise BrokenError(
            f"{what} has the shape {tuple(found.shape)}; expected {tuple(wanted.shape)}, the shape of {expected}"
        )
    if torch.allclose(found, wanted, rtol=error, atol=error):
        return
    gap = (found - wanted).abs()
    if not found.isfinite().all():
        raise BrokenError(f"{what} is not finite; expected {expected}")
    place = [int(i) for i in torch.unravel_index(gap.nan_to_num(torch.inf).argmax(), gap.shape)]
    raise BrokenError(
        f"{what} differs from {expected}: the largest difference is {float(gap.max()):.3g}, at {place}: "
        f"got {float(found[tuple(place)]):.6g}, expected {float(wanted[tuple(place)]):.6g}"
    )
