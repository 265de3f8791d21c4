"""Where a translator looked: a picture, or a page that can be opened anywhere."""

import html
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HIGH, BROAD = 0.36, 1.8  # inches of a cell at most, and how much broader it may be
SMALLEST = 0.13  # inches of a cell that a page grows wider for
WIDEST, TALLEST = 24.0, 20.0  # inches of a page, and of a map on it
WORD = 1.7  # inches of a word beside the map; what is longer is cut
SIDE, GAP = 0.3, 0.08  # inches beside everything, and between the map and its words
SLANT = math.radians(50)
LEGEND, SHADES = 0.85, 3.2  # inches below the map, and of the legend there
LARGEST, SPARSE, LEAST = 12.0, 8.0, 5.5  # points of type: where words would stand closer, some are left out
DENSE = 0.7 * 72  # points of type that an inch between two slanted words allows
LONGEST = 1500  # letters of a text in the note


def draw_alignment(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, note: str) -> "Figure":
    """Draw an alignment map, (target, source): the attention of each target word over the source words.

    The page is as large as the map needs. A title that is too wide is moved to the note.
    """
    from regard import style

    def longest(words: Sequence[str], points: float) -> float:
        return max((style.breadth(word, points, style.SERIF) for word in words), default=0.0)

    left, above = ([style.cut(word, WORD, LARGEST, style.SERIF) for word in words] for words in (rows, columns))
    start = SIDE + longest(left, LARGEST) + GAP
    width = start + SMALLEST * len(columns) + math.cos(SLANT) * longest(above, LARGEST) + SIDE
    width = min(max(style.WIDTH, width), WIDEST)
    high = min(HIGH, TALLEST / max(len(rows), 1))
    broad = BROAD * high
    for j, word in enumerate(above):  # it begins over the middle of its column, and ends on the page
        room = width - SIDE - start - math.cos(SLANT) * style.breadth(word, LARGEST, style.SERIF)
        broad = min(broad, room / (j + 0.5), (width - SIDE - start) / len(above))
    high = min(high, broad)
    every = math.ceil(LEAST / (DENSE * high))  # of so many words one is written
    points = min(LARGEST if every == 1 else SPARSE, DENSE * high * every)
    start = SIDE + longest(left, points) + GAP

    headline = style.cut(title, width - 2 * SIDE, 20, style.SERIF)
    said = note.splitlines()
    if headline != title:
        headline = headline.rpartition(" ")[0] + " …" if " " in headline else headline
        said = [f"“{shorten(title)}”", *said]
    below = "\n".join(style.wrapped(text, width - 2 * SIDE, 11) for text in said)
    tall = high * len(rows)
    height = style.head(below) + math.sin(SLANT) * longest(above, points) + 0.2 + tall + LEGEND
    figure = style.page(style.literal(headline), style.literal(below), height=height, width=width)
    figure.set_layout_engine("none")
    figure.texts[-1].set_linespacing(1.37)
    axes = figure.add_axes((start / width, LEGEND / height, broad * len(columns) / width, tall / height))
    style.heatmap(
        axes, weights, written(left, every), written(above, every), slant=math.degrees(SLANT), size=points - 2
    )
    axes.set_aspect("auto")
    shades = figure.add_axes((start / width, 0.52 / height, SHADES / width, 0.09 / height))
    style.scale(figure, axes, within=shades)
    return figure


def written(words: Sequence[str], every: int) -> list[str]:
    """What matplotlib draws as it stands: each word, or one of so many where there is no room for all."""
    from regard import style

    return [style.literal(word) if i % every == 0 else "" for i, word in enumerate(words)]


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def alignment_page(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, note: str) -> str:
    """A self-contained HTML page of an alignment map: hover over a word to see its weights."""
    cells = []
    for i, row in enumerate(rows):
        line = "".join(
            f'<td style="--w:{value**0.5:.3f}" title="{html.escape(row)} attends to {html.escape(columns[j])}: '
            f'{value:.3f}"></td>'
            for j, value in enumerate(weights[i].tolist())
        )
        cells.append(f'<tr><th scope="row">{html.escape(row)}</th>{line}</tr>')
    heads = "".join(f'<th scope="col"><span>{html.escape(column)}</span></th>' for column in columns)
    data = json.dumps({"rows": list(rows), "columns": list(columns), "weights": weights.tolist()}).replace(
        "<", "\\u003c"
    )
    return PAGE.format(title=html.escape(title), note=html.escape(note), heads=heads, cells="\n".join(cells), data=data)


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2.5rem auto; max-width: 72rem; padding: 0 1rem; color: #23263a }}
h1 {{ font: 600 1.7rem/1.2 Georgia, serif; margin: 0 0 .3rem }}
p {{ color: #5c5f73; margin: 0 0 1.5rem }}
.map {{ overflow-x: auto }}
table {{ border-collapse: separate; border-spacing: 2px }}
td {{ width: 1.9rem; height: 1.6rem; border-radius: 3px;
  background: color-mix(in oklab, #3a2d8f calc(var(--w) * 100%), #f3f2f8) }}
td:hover {{ outline: 2px solid #c2491d }}
th {{ font-weight: 400 }}
th[scope=row] {{ text-align: right; padding-right: .6rem; white-space: nowrap }}
th[scope=col] {{ vertical-align: bottom; height: 7rem }}
th[scope=col] span {{ writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap }}
tr:hover th[scope=row] {{ color: #c2491d }}
</style></head><body>
<h1>{title}</h1><p>{note}</p>
<div class="map"><table><thead><tr><td style="background:none"></td>{heads}</tr></thead>
<tbody>
{cells}
</tbody></table></div>
<script type="application/json" id="map">{data}</script>
</body></html>
"""
