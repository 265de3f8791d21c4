"""The table of a part as one of a whole, where the names of its tensors stand behind a prefix."""

from collections.abc import Iterable
from dataclasses import replace

from .rules import Dropped, Entry, Idle, Known, Ours, Rule, Tied


def prefixed(table: Iterable[Entry], theirs: str, ours: str) -> list[Entry]:
    """The same entries, with one prefix for their names and one for ours."""
    return [behind(entry, theirs, ours) for entry in table]


def behind(entry: Entry, theirs: str, ours: str) -> Entry:
    match entry:
        case Rule():
            return replace(entry, theirs=each(theirs, entry.theirs), ours=each(ours, entry.ours))
        case Tied():
            return replace(entry, theirs=theirs + entry.theirs, ours=ours + entry.ours)
        case Ours():
            return replace(entry, name=ours + entry.name)
        case Dropped() | Known():
            return replace(entry, theirs=theirs + entry.theirs)
        case Idle():
            return replace(entry, theirs=theirs + entry.theirs, beside=ours + entry.beside)


def each(prefix: str, names: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return prefix + names if isinstance(names, str) else tuple(prefix + name for name in names)
