"""The lectures' figures: what was recorded of each, and its picture, drawn from that record."""

import importlib
import io
import json
import threading
from collections import OrderedDict
from typing import Any, cast

from regard.figures.figure import FigureModule
from regard.figures.table import FIGURES, RESULTS, rows
from regard.style import METADATA, family

from .refusals import RefusedError

ROOM = 1 << 25  # bytes of pictures that are kept
SHOWN = ("id", "deck", "title", "claim", "command")
CONCLUSIONS = {  # what the decks end with, and the figure that makes a check of it
    "5.3b": "Data hungry",
    "2.8": "Quadratic",
    "11.8": "Outside of context window",
    "11.8b": "RNN better?",
    "11.8c": "Transform data into a sequence",
}


class Gallery:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # matplotlib draws for one thread at a time
        self.reading = threading.Lock()
        self.table: list[dict[str, Any]] = []
        self.pictures: OrderedDict[str, bytes] = OrderedDict()

    def rows(self) -> list[dict[str, Any]]:
        with self.reading:
            if not self.table:
                self.table = [told(row) for row in rows()]
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


def told(row: dict[str, Any]) -> dict[str, Any]:
    name = str(row["id"])
    return {key: row[key] for key in SHOWN} | {"conclusion": CONCLUSIONS.get(name)} | verdict(name)


def record(name: str) -> dict[str, Any] | None:
    """Of a figure in the table; None if it was never computed in full."""
    if name not in FIGURES:
        raise RefusedError(404, "there is no such figure", fix="GET figures tells which there are")
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text("utf-8")) if path.is_file() else None
    return found


def verdict(name: str) -> dict[str, Any]:
    found = record(name)
    return {"holds": None, "checks": []} if found is None else {"holds": found["holds"], "checks": found["checks"]}


def drawn(name: str) -> bytes:
    found = record(name)
    if found is None:
        raise RefusedError(404, "this figure is not recorded", fix=f"regard figure {name} computes and draws it")
    module = cast(FigureModule, importlib.import_module(FIGURES[name]))
    raw = io.BytesIO()
    with family():
        module.draw(found["numbers"]).savefig(raw, format="svg", metadata=METADATA["svg"])
    return raw.getvalue()
