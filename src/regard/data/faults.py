"""Examples that cannot be used: each is named, and too many of them stop the work before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError

SHOWN = 10
OTHER = "invalid UTF-8"  # in the reason of a line that is no text


class DamagedError(ValueError):
    """A file that cannot be used, and why."""


class TransientError(DamagedError):
    """One that may be readable the next time: it could not be opened, or there was too little memory."""


def printable(text: str) -> str:
    """A foreign text for one line of a report."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


@dataclass(frozen=True)
class Fault:
    """One example that was left out, and why."""

    file: str
    line: int  # from 1; 0 where the file as a whole is at fault, such as an image
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def fault_at(where: str, reason: str) -> Fault:
    """Of a row, by the words in which it says where it stands."""
    file, _, line = where.rpartition(":")
    return Fault(file, int(line), reason)


def check_fault_share(
    faults: Sequence[Fault], total: int, share: float = 0.01, name: str = "", what: str = "row rows"
) -> None:
    """Stop if more than this share of all rows is bad, or if none is left. ``total`` counts good and bad ones;
    ``name`` says which data it is, where no row does; ``what`` a row is, and what several are."""
    bad = len(faults)
    if bad < total and bad / total <= share:
        return
    shown = [str(faults[i]) for i in range(min(bad, SHOWN))]  # by number: a long list may be made as it is read
    more = [f"and {bad - SHOWN:,} more"] if bad > SHOWN else []
    one, many = what.split()
    raise InputError(
        f"the data has too many bad {many}" if bad < total else f"the data has no valid {one}",
        where="\n    ".join([*shown, *more]) or name,
        got=f"{bad} of {total} {many} are bad" + (f" ({bad / total:.2%})" if total else ""),
        expected=("" if bad < total else f"at least one valid {one}, and ") + f"at most {share:.2%} bad {many}",
        fix=(f"fix the data, or allow a larger fraction of bad {many}" if bad else "check that this is the right file")
        + ("; if the text is in another encoding, set data.encoding" if any(OTHER in one for one in shown) else ""),
    )
