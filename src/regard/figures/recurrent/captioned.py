"""Captions of photographs, German and English (Multi30k), and what a model makes of them."""

from pathlib import Path

from regard.data.tables import open_plain
from regard.model import Model
from regard.run.sources import found

Pair = tuple[str, str]


def pairs_of(split: str) -> list[Pair]:
    rows = open_plain(*(found(f"multi30k/{split}.{language}.gz", Path()) for language in ("de", "en")))
    return [(german, english) for german, english in (rows[i] for i in range(len(rows)))]


def translated(model: Model, pairs: list[Pair]) -> list[str]:
    said = model.translate([source for source, _ in pairs])
    assert isinstance(said, list)
    return [one.text for one in said]
