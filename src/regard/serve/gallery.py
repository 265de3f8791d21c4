"""The lectures' figures: what was recorded of each, and its picture, drawn from that record."""

import threading
from collections import OrderedDict
from typing import Any

from regard.figures import figure_homes, figure_rows

from .refusals import RefusedError

ROOM = 1 << 25  # bytes of pictures that are kept
SHOWN = ("id", "deck", "title", "claim", "command", "conclusion", "expected", "found", "verdict", "agreement", "stale")


class Gallery:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # matplotlib draws for one thread at a time
        self.reading = threading.Lock()
        self.table: list[dict[str, Any]] = []
        self.pictures: OrderedDict[str, bytes] = OrderedDict()

    def rows(self) -> list[dict[str, Any]]:
        with self.reading:
            if not self.table:
                self.table = [gallery_row(row) for row in figure_rows()]
            return self.table

    def picture(self, name: str) -> bytes:
        """SVG"""
        with self.lock:
            if name not in self.pictures:
                self.pictures[name] = drawn(name)
            self.pictures.move_to_end(name)
            while len(self.pictures) > 1 and sum(map(len, self.pictures.values())) > ROOM:
                self.pictures.popitem(last=False)
            return self.pictures[name]


def gallery_row(row: dict[str, Any]) -> dict[str, Any]:
    found = record(str(row["id"])) or {"holds": None, "checks": []}
    return {key: row[key] for key in SHOWN} | {key: found[key] for key in ("holds", "checks")}


def record(name: str) -> dict[str, Any] | None:
    """Of a figure that is installed; None if it was never computed in full."""
    home = figure_homes().get(name)
    if home is None:
        raise RefusedError(404, "unknown figure", fix="list the figures with GET figures")
    return home.record(name)


def drawn(name: str) -> bytes:
    found = record(name)
    if found is None:
        raise RefusedError(
            404, "this figure has not been computed yet", fix=f"run regard figure {name} to compute and draw it"
        )
    return figure_homes()[name].picture(found, "svg")
