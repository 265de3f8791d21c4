"""Figures that are installed beside the library, such as those of regard-lectures.

A distribution names its collection by an entry point in the group ``regard.figures``: an object, or a module, that has
what ``Collection`` lists. The library knows no more of it. A single figure of one's own is a ``Figure``, which
``regard.register`` adds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from regard.errors import InputError
from regard.tables import Table

GROUP = "regard.figures"


class Collection(Protocol):
    """A collection of named figures. Listing them imports neither torch nor matplotlib."""

    def names(self) -> list[str]: ...

    def rows(self) -> list[dict[str, Any]]:
        """One row per figure: id, deck, title, claim, command, cost in seconds, expected, found, verdict, agreement
        (over seeds), stale, last (the verdict in words), and conclusion if the figure checks one."""
        ...

    def cost(self, name: str) -> float:
        """Run time in seconds on an idle machine."""
        ...

    def run(self, name: str, out: Path, check: bool) -> dict[str, Any]:
        """Compute a figure and draw it to a folder; with ``check``, test the expected result."""
        ...

    def record(self, name: str) -> dict[str, Any] | None:
        """Result of the last full run; None if there was none."""
        ...

    def picture(self, record: dict[str, Any], kind: str) -> bytes:
        """Redraw a recorded figure as png or svg."""
        ...


@dataclass(frozen=True)
class Figure:
    """A user-defined figure. ``compute`` returns JSON-serializable data, ``draw`` turns it into a matplotlib figure,
    and ``checks`` returns for each expected result whether it holds."""

    title: str
    claim: str  # what it shows, in a sentence
    compute: Callable[[], dict[str, Any]]
    draw: Callable[[Mapping[str, Any]], Any]
    checks: Callable[[Mapping[str, Any]], dict[str, bool]] | None = None
    cost: float = 1.0  # seconds, about


FIGURES = Table[Figure]("figure", {})
COLLECTIONS = Table[Collection]("collection of figures", {})


class Own:
    """The figures that were registered one by one. They keep no records."""

    def names(self) -> list[str]:
        return list(FIGURES)

    def rows(self) -> list[dict[str, Any]]:
        return [self.row(name, figure) for name, figure in FIGURES.items()]

    def row(self, name: str, figure: Figure) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": name,
            "deck": "",
            "title": figure.title,
            "claim": figure.claim,
            "expected": figure.claim,
        }
        told |= {"command": f"regard figure {name}", "conclusion": None, "found": "", "agreement": ""}
        return told | {"cost": figure.cost, "last": "not recorded", "verdict": None, "stale": False}

    def cost(self, name: str) -> float:
        return FIGURES[name].cost

    def run(self, name: str, out: Path, check: bool) -> dict[str, Any]:
        out.mkdir(parents=True, exist_ok=True)  # what is wrong with the folder is told before the work
        figure = FIGURES[name]
        numbers = figure.compute()
        found = {} if figure.checks is None else figure.checks(numbers)
        failed = [what for what, holds in found.items() if not holds]
        verdict = (
            "" if not found else "contradicted" if len(failed) == len(found) else "partly" if failed else "confirmed"
        )
        result: dict[str, Any] = {
            "id": name,
            "title": figure.title,
            "claim": figure.claim,
            "numbers": numbers,
            "failed": failed,
        }
        result |= {"verdict": verdict or None, "agreement": "", "holds": not failed if found and check else None}
        for kind in ("png", "svg"):
            (out / f"{name}.{kind}").write_bytes(self.picture(result, kind))
        (out / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
        return result

    def record(self, name: str) -> dict[str, Any] | None:
        return None

    def picture(self, record: dict[str, Any], kind: str) -> bytes:
        from io import BytesIO

        drawn, found = FIGURES[record["id"]].draw(record["numbers"]), BytesIO()
        drawn.savefig(found, format=kind)
        return found.getvalue()


OWN = Own()


@cache
def installed() -> tuple[Collection, ...]:
    return tuple(one.load() for one in sorted(entry_points(group=GROUP), key=lambda one: one.name))


def collections() -> tuple[Collection, ...]:
    """Those that are installed, and what was registered."""
    found = (*installed(), *COLLECTIONS.values(), *([OWN] if FIGURES else []))
    if not found:
        raise InputError("no figures are installed", fix="install regard-lectures with `pip install ./lectures`")
    return found


def figure_rows() -> list[dict[str, Any]]:
    return [row for collection in collections() for row in collection.rows()]


def figure_homes() -> dict[str, Collection]:
    """Which collection has a figure, for each name."""
    found: dict[str, Collection] = {}
    for collection in collections():
        for name in collection.names():
            if name in found:
                raise InputError(
                    "two installed collections contain a figure with this name", got=name, fix="uninstall one of them"
                )
            found[name] = collection
    return found
