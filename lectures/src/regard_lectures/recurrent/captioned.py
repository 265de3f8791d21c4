"""Captions of photographs, German and English (Multi30k), and what a model makes of them."""

from collections.abc import Iterable
from pathlib import Path

from regard.data.files import find_file as found
from regard.data.tables import open_plain
from regard.model import Model
from regard_lectures.runs import RUNS

Pair = tuple[str, str]


def pairs_of(split: str) -> list[Pair]:
    rows = open_plain(*(found(f"multi30k/{split}.{language}.gz", Path()) for language in ("de", "en")))
    return [(german, english) for german, english in (rows[i] for i in range(len(rows)))]


def files(name: str, pairs: Iterable[Pair]) -> tuple[str, ...]:
    """Pairs to train on, German and English line by line, written beside the runs."""
    RUNS.mkdir(exist_ok=True)
    paths = [(RUNS / f"{name}.{language}").absolute() for language in ("de", "en")]
    for path, texts in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return tuple(map(str, paths))


def translated(model: Model, pairs: list[Pair]) -> list[str]:
    said = model.translate([source for source, _ in pairs])
    assert isinstance(said, list)
    return [one.text for one in said]
