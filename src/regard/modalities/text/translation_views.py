"""How translations are shown: texts, and the words that each word attended to, as a map."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import InputError
from regard.look.terminal import column_ranges, heat_map_lines, map_width, terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from torch import Tensor

    from regard.look.maps import Map

    from .runners import Translation

PARTS = 4  # of a map in the terminal, at most


class Alignment(NamedTuple):
    """The mean of all heads and layers that were looked at."""

    weights: "Tensor"  # (target, source)
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    layers: str  # in words


def translation_data(one: "Translation") -> dict[str, Any]:
    several = [{"text": x.text, "score": x.score, "logp": x.logp} for x in one.nbest]
    maps = {
        name: {
            "rows": list(x.rows.labels or ()),
            "columns": list(x.columns.labels or ()),
            "weights": x.weights[0].tolist(),
        }
        for name, x in one.maps.items()
    }
    return {"source": one.source, "text": one.text, "nbest": several} | ({"maps": maps} if maps else {})


def translation_lines(answers: "Sequence[Translation]") -> list[str]:
    """Each by itself, or where several were asked for, each with its score."""
    lines = []
    for one in answers:
        lines += [one.text] if len(one.nbest) == 1 else [f"{x.score:8.3f}  {x.text}" for x in one.nbest]
    return lines


def draw(answers: "Sequence[Translation]", path: Path) -> None:
    """The map of one translation, as a picture or a page."""
    from regard.look.drawing import alignment_page, draw_alignment, shorten

    (one,) = answers
    found = mean_alignment(one.maps)
    title = terminal_text(one_line(one.text)) or "(empty)"
    source = terminal_text(shorten(" ".join(one.source.split())))
    note = f"“{source}”\nEach row attends to the words above it: {found.layers}, mean over all heads."
    if path.suffix.lower() == ".html":
        path.write_text(alignment_page(found.weights, found.rows, found.columns, title, note), "utf-8")
        return
    from regard.glyphs import supply_glyphs
    from regard.style import font_family

    with font_family():
        picture = draw_alignment(found.weights, found.rows, found.columns, title, note)
        supply_glyphs(picture)
        picture.savefig(path)


def map_lines(one: "Translation") -> list[str]:
    """The map, line by line, for a terminal: in parts if it is too wide, and if these are many, not at all."""
    found, width = mean_alignment(one.maps), map_width()
    several = len(column_ranges(found.rows, found.columns, width))
    if several > PARTS:
        many = len(found.columns)
        return [f"The map of {many} words is too wide for the terminal; write it to a file: --look map.png"]
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    lines = heat_map_lines(found.weights.tolist(), found.rows, found.columns, colour=colour, width=width)
    return lines if several == 1 else [*lines, "", "As one image: --look map.png"]


def mean_alignment(maps: "dict[str, Map]") -> Alignment:
    import torch

    from regard.look.subwords import merge_subwords

    several = [merge_subwords(one) for one in maps.values()]
    if len({(one.rows.labels, one.columns.labels) for one in several}) > 1:
        raise unlike_axes(list(maps))
    weights = torch.stack([one.weights[0].mean(0) for one in several]).mean(0)
    layers = several[0].name if len(several) == 1 else f"{several[0].name} to {several[-1].name}"
    return Alignment(weights, words_on(several[0].rows.labels), words_on(several[0].columns.labels), layers)


def unlike_axes(layers: Sequence[str]) -> InputError:
    return InputError(
        "the attention maps of these layers have different axes and cannot be averaged",
        got=", ".join(layers),
        fix="select layers of one kind with --layer, such as decoder.*.cross",
    )


def words_on(labels: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(terminal_text(label) or "·" for label in labels or ())


def one_line(text: str) -> str:
    return " ".join(text.splitlines())


def translation_fields(one: "Translation") -> dict[str, Any]:
    """The best, and the others where several were asked for."""
    several = {"translations": [{"text": x.text, "score": x.score} for x in one.nbest]} if len(one.nbest) > 1 else {}
    return {"translation": one.text} | several


TRANSLATIONS = AnswerView(translation_data, translation_lines, draw, translation_fields)
