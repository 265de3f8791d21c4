"""A figure as a file: what its module draws, and below it the verdict."""

import io
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from regard import style
from regard_lectures.records import Record, words

if TYPE_CHECKING:
    from regard_lectures.figure import FigureModule

STRIP = 0.34  # inches below the page


def encoded(code: "FigureModule", record: Record, kind: str) -> bytes:
    """png or svg"""
    raw = io.BytesIO()
    with style.font_family():
        figure = code.draw(record["numbers"])
        page = stamped(figure, words(record))
        figure.savefig(raw, format=kind, metadata=style.METADATA[kind], bbox_inches=page)
    return raw.getvalue()


def stamped(figure: Figure, verdict: str) -> Bbox:
    """Write the verdict below the figure. -> the page with its strip, in inches"""
    width, height = figure.get_size_inches()
    figure.text(0.3 / width, (0.14 - STRIP) / height, verdict, size=10, color=style.SOFT, va="baseline")
    return Bbox.from_extents(0, -STRIP, width, height)
