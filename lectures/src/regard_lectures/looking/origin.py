"""11.2b: deck 003's figure 8, where a heat map comes from: a query for each row, a key for each column, their products,
and a softmax along each row.

The numbers are those of one head of 11.2's translator, as they pass through it while it writes.
"""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain
from regard_lectures.looking.eight import LAYER, learned
from regard_lectures.looking.french import SWAPPED, looked, translated

TITLE = "Where the heat map comes from"
DECKS = ("003",)
CLAIM = "A heat map is the softmax of the products of queries and keys: the map that is looked at is exactly this."
EXPECTED = "The heat map is the softmax of q.k / sqrt d of each row, and nothing else."
FOUND = "The map equals softmax(q.k / sqrt d) to 1e-7; the adjective that is followed gives 99 % to its own word."
COST = 10.0
SEED = 0

ROW = 2  # the one that is followed: an adjective, which comes before its noun in English


@torch.no_grad()
def compute() -> Numbers:
    with torch.enable_grad():
        model = learned(SEED)
    (said,), wanted = looked(model, [SWAPPED], LAYER), translated(SWAPPED)
    seen = said.maps[LAYER]
    assert seen.rows.labels is not None
    assert seen.columns.labels is not None
    sources = torch.tensor([*wanted.sources, len(wanted.sources)])
    head = int(seen.weights[0].gather(-1, sources.expand(8, -1)[..., None]).mean((1, 2)).argmax())
    text = model.text()
    source = torch.tensor([text.ids([SWAPPED + " <end>"])[0]])
    given = torch.tensor([text.ids(["<begin> " + said.text])[0]])
    with capture(model.net, f"{LAYER}.*") as parts:
        logits = model.net(source, given)
    q, k, weights = (parts[f"{LAYER}.{name}"][0][0, head] for name in ("queries", "keys", "weights"))
    scores = q @ k.T / math.sqrt(q.shape[-1])
    return {
        "head": head,
        "rows": list(seen.rows.labels),
        "columns": list(seen.columns.labels),
        "queries": plain(q, 3),
        "keys": plain(k, 3),
        "scores": plain(scores, 4),
        "map": plain(weights, 4),
        "softmax": float((scores.softmax(-1) - weights).abs().max()),
        "same": float((weights - seen.weights[0, head]).abs().max()),
        "unseen": float((logits - model.net(source, given)).abs().max()),
        "totals": float((weights.sum(-1) - 1).abs().max()),
        "sources": list(wanted.sources),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Head {numbers['head'] + 1} of figure 11.2. A row is a word that was written, a column one that was read; "
        "grey is negative."
    )
    figure = style.page(TITLE, note, height=7.3)
    axes = style.stage(figure)
    rows, columns, wide = numbers["rows"], numbers["columns"], len(numbers["queries"][0])
    cell, small, top = 0.385, 0.15, 4.2
    left, right = 2.7, 6.55  # of the two large squares
    across = cell * len(columns)
    style.cells(axes, left - 0.16 - small * wide, top, numbers["queries"], (small, cell), tint=style.QUERY)
    style.cells(axes, left, top + 0.16 + small * wide, transposed(numbers["keys"]), (cell, small), tint=style.KEY)
    style.cells(axes, left, top, numbers["scores"], cell, digits=1, size=7.3)
    style.cells(axes, right, top, numbers["map"], cell, limit=1, digits=2, size=7.8)
    for i, word in enumerate(rows):
        y, own = top - (i + 0.5) * cell, i == ROW
        tint = style.QUERY if own else style.INK
        style.write(axes, left - 0.26 - small * wide, y, word, ha="right", family=style.SERIF, size=13, color=tint)
    for j, word in enumerate(columns):
        for x, y in ((left, top + 0.24 + small * wide), (right, top + 0.08)):
            slanted(axes, x + (j + 0.35) * cell, y, word)
    for x in (left, right):
        style.frame(axes, x, top - (ROW + 1) * cell, across, cell, style.QUERY)
    style.frame(axes, left - 0.16 - small * wide, top - (ROW + 1) * cell, small * wide, cell, style.QUERY)
    middle = top - 4 * cell
    style.arrow(axes, (left + across + 0.1, middle), (right - 0.1, middle), line=2)
    style.write(axes, (left + across + right) / 2, middle + 0.2, "softmax", size=10, color=style.SOFT)
    below = top - across - 0.22
    style.write(axes, left - 0.16 - small * wide / 2, below, "queries $q_i$", size=11.5, color=style.QUERY)
    style.write(axes, left - 0.16, top + 0.16 + small * wide / 2, "keys $k_j$", size=11.5, ha="right", color=style.KEY)
    style.write(axes, left + across / 2, below, f"$q_i \\cdot k_j \\; / \\, \\sqrt{{{wide}}}$", size=13)
    style.write(axes, right + across / 2, below, "weights: the heat map", size=11.5, color=style.WEIGHT)
    spelled(axes, numbers)
    return figure


def spelled(axes: Axes, numbers: Numbers) -> None:
    """One number of the map, written out."""
    column = numbers["sources"][ROW]
    score, weight = numbers["scores"][ROW][column], numbers["map"][ROW][column]
    total = sum(math.exp(x) for x in numbers["scores"][ROW])
    q, k = numbers["queries"][ROW], numbers["keys"][column]
    product = sum(a * b for a, b in zip(q, k, strict=True))
    here, there = numbers["rows"][ROW], numbers["columns"][column]
    lines = (
        f"{here}·{there} = {product:.2f},  /√{len(q)} = {score:.2f}",
        f"exp({score:.2f}) / Σ exp = {math.exp(score):,.0f} / {total:,.0f} = {weight:.2f}",
    )
    for i, line in enumerate(lines):
        style.write(axes, 0.35, 0.52 - 0.26 * i, line, ha="left", family=style.MONO, size=10.5)


def slanted(axes: Axes, x: float, y: float, word: str) -> None:
    text = style.write(axes, x, y, word, ha="left", va="bottom", family=style.SERIF, size=13, rotation=50)
    text.set_rotation_mode("anchor")


def transposed(rows: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*rows, strict=True)]


def checks(numbers: Numbers) -> list[Check]:
    written = " ".join(numbers["rows"])
    return [
        below("the map and softmax(q·k / √d), largest difference", numbers["softmax"], 1e-6),
        below("the map as `translate` shows it, largest difference", numbers["same"], 1e-5),
        below("what looking changes in the logits", numbers["unseen"], 1e-4),
        below("rows add up to 1 (difference)", numbers["totals"], 1e-5),
        aside(above("the adjective's weight on its own word", numbers["map"][ROW][numbers["sources"][ROW]], 0.5)),
        aside(equal("the rows are what was written", written, f"{translated(SWAPPED).french} <end>")),
    ]
