"""Where a translator looked: a picture, or a page that can be opened anywhere."""

import html
import json
from collections.abc import Sequence
from textwrap import fill, shorten
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, note: str) -> "Figure":
    """(target, source): each word of the translation looks at the words of the source."""
    from regard import style

    tall = min(max(2.2 + 0.34 * len(rows), 3.6), 14.0)
    figure = style.page(shorten(title, 80, placeholder=" …"), fill(note, 125), height=tall)
    axes = figure.subplots()
    style.heatmap(axes, weights, rows, columns, slant=50, size=10 if max(len(rows), len(columns)) < 30 else 7)
    style.scale(figure, axes, shrink=0.5)
    return figure


def page(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, note: str) -> str:
    """One file without scripts from elsewhere: hover a word to see what it looked at."""
    cells = []
    for i, row in enumerate(rows):
        line = "".join(
            f'<td style="--w:{value**0.5:.3f}" title="{html.escape(row)} looks at {html.escape(columns[j])}: '
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
