"""1.2c: a search box that completes words by counts of letters, and the keys that it saves.

The lines of tiny Shakespeare, the last tenth held out; every twentieth of those is typed. One key takes any of five
completions as soon as the right one is among them.
"""

from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.completion import Completing
from regard_lectures.figure import Check, Numbers, above, aside, below, equal
from regard_lectures.foundations.play import words

TITLE = "As you type"
DECKS = ("004",)
CLAIM = "Completions by counts of letters save more keys the longer the history, from n = 2 to n = 5."
EXPECTED = "The keystrokes that completions by letter counts save grow from n = 2 to n = 5."
FOUND = "Saved are 1.7, 10.2, 18.7 and 25.7 % of the keys at n = 2, 3, 4 and 5."
COST = 45.0
SEED = 0

ORDERS, TOP, EVERY = range(2, 7), 5, 20
SHOWN, TYPED = 5, ("My lo", "where", "good n")


def compute() -> Numbers:
    lines = [line for line in words().split("\n") if line]
    cut = len(lines) * 9 // 10
    numbers: Numbers = {"letters": 0, "saved": []}
    for order in ORDERS:
        completing = Completing(lines[:cut], order)
        typed = completing.typing(lines[cut::EVERY], TOP)
        numbers["letters"] = typed.letters
        numbers["saved"].append(float(f"{typed.saved:.4g}"))
        if order == SHOWN:
            numbers["boxes"] = {
                text: [[one.text, float(f"{one.probability:.4g}")] for one in completing.complete(text, TOP)]
                for text in TYPED
            }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Left: what a {SHOWN}-gram of letters proposes, with the probability of each. Right: the share of keys that "
        f"need not be\npressed if one key takes any of {TOP} proposals; {numbers['letters']:,} letters that were "
        "not counted."
    )
    figure = style.page(TITLE, note, height=5.9)
    stage = style.stage(figure)
    boxes = numbers["boxes"]
    search(stage, 0.4, 4.05, 5.1, TYPED[0], boxes[TYPED[0]])
    for i, typed in enumerate(TYPED[1:]):
        search(stage, 0.4 + 2.62 * i, 1.72, 2.48, typed, boxes[typed], size=10.5)
    axes = figure.add_axes((0.645, 0.13, 0.32, 0.6))
    style.bars(axes, [str(order) for order in ORDERS], numbers["saved"], form=style.percent)
    axes.set(xlabel="$n$", title="keys saved")
    return figure


def search(
    axes: Axes, x: float, y: float, width: float, typed: str, proposals: list[list[Any]], size: float = 12.5
) -> None:
    """A box with what was typed, and below it what may come of it; (x, y) is the lower left corner of the box."""
    row = 0.026 * size
    style.box(axes, x, y, width, 1.35 * row, edge=style.WEIGHT, line=1.6, corner=0.12)
    end = pair(axes, x + 0.16, y + 0.67 * row, typed, "", size)
    axes.plot([end + 0.03] * 2, [y + 0.3 * row, y + 1.05 * row], color=style.WEIGHT, lw=1.4, zorder=5)
    style.block(axes, x, y - 1.22 * row, width, row, style.WEIGHT_WASH)
    middles = [y - (i + 0.72) * row for i in range(len(proposals))]
    ends = [pair(axes, x + 0.16, y, typed, one[0], size) for y, one in zip(middles, proposals, strict=True)]
    start = max(ends) + 0.14
    full = x + width - 0.62 - start  # of a bar for 100 %
    for middle, (_, chance) in zip(middles, proposals, strict=True):
        style.block(axes, start, middle - 0.2 * row, full * chance, 0.4 * row, style.WEIGHT)
        share = style.percent(chance, 0 if chance >= 0.1 else 1)
        style.write(axes, x + width - 0.08, middle, share, ha="right", size=size - 1.5, color=style.SOFT)


def pair(axes: Axes, x: float, y: float, typed: str, text: str, size: float) -> float:
    """What was typed in grey, what comes after it in ink.  -> where it ends"""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    for part, tint, weight in ((typed, style.SOFT if text else style.INK, "normal"), (text, style.INK, "bold")):
        if part:
            place: dict[str, Any] = {"ha": "left", "va": "baseline", "family": style.MONO}
            shown = style.write(axes, x, y - 0.005 * size, part, size=size, color=tint, weight=weight, **place)
            x += shown.get_window_extent().width / figure.dpi
    return x


def checks(numbers: Numbers) -> list[Check]:
    upto = numbers["saved"][: ORDERS.index(5) + 1]
    first = {typed: typed + proposals[0][0] for typed, proposals in numbers["boxes"].items()}
    ordered = all(one[1] >= two[1] for proposals in numbers["boxes"].values() for one, two in pairwise(proposals))
    total = max(sum(one[1] for one in proposals) for proposals in numbers["boxes"].values())
    return [
        above(
            "keys saved, least growth from one n to the next, n = 2 to 5", min(b - a for a, b in pairwise(upto)), 0.02
        ),
        aside(above("keys saved, n = 5", upto[-1], 0.2)),
        aside(equal("proposals are ranked", ordered, True)),
        aside(below("probabilities of proposals together, largest", total, 1.0)),
        aside(equal(f"the first for {TYPED[0]!r}", first[TYPED[0]], "My lord")),
    ]
