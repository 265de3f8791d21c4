"""4.4: T5's idea (Raffel et al., 2020): every task is text in and text out, and the first word says which.

The answers are those of the net of 4.4c, letter by letter, the likeliest each time.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, equal
from regard_lectures.text.prefixes import SIZES, TASKS, pair, taught, written

TITLE = "All tasks through one box"
DECKS = ("001",)
CLAIM = "One net reverses, writes in capitals or translates: the first word of the text says which."
EXPECTED = "One net reverses, writes in capitals or translates digits, as the first word of the text says."
FOUND = "All 6 answers are right, and the same word has 2 different answers by its first word."
COST = 40.0
SEED = 0

ASKED = [
    ("reverse:", "attend"),
    ("upper:", "attend"),
    ("reverse:", "regard"),
    ("upper:", "regard"),
    ("translate-digits:", "1706"),
    ("translate-digits:", "42842"),
]


def compute() -> Numbers:
    net = taught(SEED).net
    answers = [written(net, pair(task, text).source) for task, text in ASKED]
    return {
        "asked": [[task, text] for task, text in ASKED],
        "answers": [joined(task, said) for (task, _), said in zip(ASKED, answers, strict=True)],
        "weights": count_parameters(net),
        "depth": SIZES.depth,
        "dim": SIZES.dim,
    }


def joined(task: str, pieces: Sequence[str]) -> str:
    return (" " if task == "translate-digits:" else "").join(pieces)


def wanted(task: str, text: str) -> str:
    return joined(task, TASKS[task](text))


def draw(numbers: Numbers) -> Figure:
    note = "Left, what goes in; right, what the net of figure 4.4c answers. Nothing but the text tells it what to do."
    figure = style.page(TITLE, note, height=5.0)
    axes = style.stage(figure)
    places = [3.55 - 0.56 * i for i in range(len(numbers["asked"]))]
    low, high = places[-1] - 0.25, places[0] + 0.25
    style.box(axes, 4.2, low, 1.9, high - low, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    middle = (low + high) / 2
    style.write(axes, 5.15, middle + 0.5, "T5", family=style.SERIF, size=24)
    depth = numbers["depth"]
    sizes = f"{depth} + {depth} layers\nwidth {numbers['dim']}\n{numbers['weights']:,} weights"
    style.write(axes, 5.15, middle - 0.28, sizes, size=11, color=style.SOFT)
    for y, (task, text), said in zip(places, numbers["asked"], numbers["answers"], strict=True):
        line(axes, y, task, text, said)
    return figure


def line(axes: Axes, y: float, task: str, text: str, said: str) -> None:
    style.box(axes, 0.3, y - 0.2, 3.3, 0.4, edge=style.LINE)
    here: dict[str, Any] = {"family": style.MONO, "va": "baseline"}
    style.write(axes, 0.45, y - 0.05, task, ha="left", size=12, color=style.QUERY, weight="bold", **here)
    style.write(axes, 3.45, y - 0.05, text, ha="right", size=12, **here)
    style.arrow(axes, (3.62, y), (4.18, y))
    style.arrow(axes, (6.12, y), (6.68, y))
    style.box(axes, 6.7, y - 0.2, 3.0, 0.4, edge=style.LINE)
    tint = style.INK if said == wanted(task, text) else style.EDGE
    style.write(axes, 6.85, y - 0.05, said, ha="left", size=12, color=tint, **here)


def checks(numbers: Numbers) -> list[Check]:
    rows = list(zip(numbers["asked"], numbers["answers"], strict=True))
    by_text: dict[str, set[str]] = {}
    for (_, text), said in rows:
        by_text.setdefault(text, set()).add(said)
    return [
        *(equal(f"{task} {text}", said, wanted(task, text)) for (task, text), said in rows),
        above("different answers to “attend”, by its first word", len(by_text["attend"]), 1),
    ]
