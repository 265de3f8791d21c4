"""1.9: the five things that deck 004 has recurrent networks do, each with the net of the library that does it.

Arrows are those that were found by running the nets and cutting them at every state (wires.py). That an output is given
back as the next input is no slope, for a letter is chosen between them: it is drawn dashed. What each net reached is
read from the records of the figures that are named; the words in the diagrams are examples.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.recurrent import Config, Head, RecurrentReader
from regard.models.rnn import Config as TranslatorConfig
from regard.models.rnn import RNNTranslator
from regard_lectures.figure import Check, Numbers, equal, seeded
from regard_lectures.records import RESULTS
from regard_lectures.recurrent.drawing import LIT, TALL, state
from regard_lectures.recurrent.wires import CONDITION, reader_wires, translator_wires

TITLE = "Five things that a recurrent net can do"
DECKS = ("004",)
CLAIM = "One net, five heads: a tag for each word, the next letter, a word for an image, a verdict, a translation."
EXPECTED = "One recurrent net does five things, each wired as its definition says."
FOUND = (
    "The wires of all 5 nets are those of the definition; what such nets reach is judged by 1.7b, 1.9b, 1.9c, 1.9d"
    " and 1.10c."
)
COST = 0.6
SEED = 0

VOCAB, DIM, HIDDEN = 11, 4, 6
RECORDS = {"a": "1.7b", "b": "1.9b", "c": "1.9c", "d": "1.9d", "e": "1.10c"}
FIRST, ENCODER, DECODER = "ahead.0", "encoder.ahead.0", "decoder.rnn.ahead.0"


@dataclass(frozen=True)
class Kind:
    title: str
    shape: str
    given: tuple[str, ...]  # words below
    said: tuple[str, ...]  # words above
    head: Head = "words"


KINDS = {
    "a": Kind(
        "element-wise classification", "many to many", ("birds", "fly", "south"), ("NOUN", "VERB", "ADV"), "tags"
    ),
    "b": Kind("sequence generation", "its own outputs in", ("↵", "K", "I", "N"), ("K", "I", "N", "G")),
    "c": Kind("conditional generation", "one to many", ("·", "t", "w", "o"), ("t", "w", "o", "·")),
    "d": Kind("sequence classification", "many to one", ("a", "charming", "little", "film"), ("good",), "label"),
    "e": Kind("sequence translation", "many to many", ("A", "bird", "flies"), ("Ein", "Vogel", "fliegt", "·")),
}


def compute() -> Numbers:
    numbers: Numbers = {}
    with seeded(SEED):
        for name, kind in KINDS.items():
            ids = torch.randint(VOCAB, (1, len(kind.given)))
            if name == "e":
                config = TranslatorConfig(
                    vocab=VOCAB, target_vocab=VOCAB, dim=DIM, hidden=HIDDEN, bidirectional=False, decoder="sutskever"
                )
                wires = translator_wires(
                    RNNTranslator(config).double().eval(), ids, torch.randint(VOCAB, (1, len(kind.said)))
                )
            else:
                condition = torch.randn(1, 3, dtype=torch.float64) if name == "c" else None
                width = None if condition is None else condition.shape[1]
                reader = Config(
                    vocab=VOCAB, dim=DIM, hidden=HIDDEN, dropout=0.0, head=kind.head, classes=3, condition=width
                )
                wires = reader_wires(RecurrentReader(reader).double(), ids, condition)
            numbers[name] = {"wires": [[*one, *other] for one, other in wires]}
    found = {name: recorded(figure) for name, figure in RECORDS.items()}
    numbers["reached"] = {
        "a": [1 - max(own[0] for own in found["a"][way]["errors"]) / found["a"]["words"] for way in ("ahead", "both")],
        "b": [found["b"]["bits"]["LSTM"], found["b"]["bits"]["5"]],
        "c": [min(found["c"]["exact"]) / found["c"]["tested"], max(found["c"]["blind"]) / found["c"]["tested"]],
        "d": [min(found["d"]["LSTM"]), max(found["d"]["letters"])],
        "e": [min(run[-1] for run in found["e"]["copy"]["in reverse"]), None],
    }
    numbers["image"] = found["c"]["images"][found["c"]["names"].index("two")]
    return numbers


def recorded(name: str) -> Numbers:
    """What another figure found when it was last recorded."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf8"))
    return cast(Numbers, record["numbers"])


CORNERS = {"a": (0.75, 3.85), "b": (3.9, 3.85), "c": (7.5, 3.85), "d": (0.75, 0.75), "e": (4.35, 0.75)}
STEPS = {"a": 0.86, "b": 0.72, "c": 0.66, "d": 0.86, "e": 0.8}
RISE = 0.72


def draw(numbers: Numbers) -> Figure:
    note = (
        "Every arrow was found in a running net by cutting it at its states; dashed, an output is the next input.\n"
        "Below each, what a net of that kind reached, worst start, and in which figure. Words are examples."
    )
    figure = style.page(TITLE, note, height=7.5)
    axes = style.stage(figure)
    for name, kind in KINDS.items():
        x, y = CORNERS[name]
        left = x - (0.9 if name == "c" else 0.45)
        style.write(axes, left, y + 2.12, kind.title, ha="left", va="baseline", size=12.5, weight="bold")
        style.write(axes, left, y + 1.9, kind.shape, ha="left", va="baseline", size=10.5, color=style.SOFT)
        plan(axes, name, numbers)
        style.write(axes, left, y - 0.42, told(name, numbers), ha="left", va="baseline", size=9.8, color=style.WEIGHT)
    return figure


def told(name: str, numbers: Numbers) -> str:
    value, other = numbers["reached"][name]
    figure = RECORDS[name]
    if name == "b":
        return f"{value:.2f} bits a letter, 5-gram {other:.2f}  ({figure})"
    says = {
        "a": f"{style.percent(value, 1)} of tags; both ways {style.percent(other or 0, 1)}  ({figure})",
        "c": f"{style.percent(value, 1)} of names exact  ({figure})",
        "d": f"{style.percent(value, 1)} of labels, by letters {style.percent(other or 0, 1)}  ({figure})",
        "e": f"{style.percent(value, 1)} of symbols copied, read in reverse  ({figure})",
    }
    return says[name]


def places(name: str) -> dict[str, tuple[float, float]]:
    """The first place of each kind of node, in steps to the right and storeys up."""
    start = len(KINDS[name].given) if name == "e" else 0
    return {
        "x": (0, 0),
        FIRST: (0, 1),
        ENCODER: (0, 1),
        DECODER: (start, 1),
        "given": (start, 0),
        "y": (start, 2),
        CONDITION: (-1, 1),
    }


def plan(axes: Axes, name: str, numbers: Numbers) -> None:
    kind, (left, low), step, spots = KINDS[name], CORNERS[name], STEPS[name], places(name)

    def at(node: str, place: int) -> tuple[float, float]:
        right, up = spots[node]
        return left + step * (right + place), low + RISE * up

    half = {node: (0.22, TALL / 2) for node in (FIRST, ENCODER, DECODER)} | {CONDITION: (0.24, 0.24)}
    states = set()
    for node, place, node_to, place_to in numbers[name]["wires"]:
        (x, y), (x_to, y_to) = at(node, place), at(node_to, place_to)
        states |= {(some, where) for some, where in ((node, place), (node_to, place_to)) if some in half}
        if x == x_to:
            up, down = half.get(node, (0, 0.15))[1], half.get(node_to, (0, 0.15))[1]
            style.arrow(axes, (x, y + up), (x, y_to - down), head=8)
        else:
            style.arrow(axes, (x + half[node][0], y), (x_to - half[node_to][0], y_to), head=8)
    for node, place in sorted(states - {(CONDITION, 0)}):
        look: dict[str, Any] = LIT if node != ENCODER else {"edge": style.KEY, "fill": style.KEY_WASH}
        state(axes, *at(node, place), "", look, wide=0.44)
    if name == "c":
        image(axes, at(CONDITION, 0), numbers["image"])
    words(axes, [at("x", i) for i in range(len(kind.given))], kind.given)
    first = len(kind.given) - 1 if name == "d" else 0
    words(axes, [at("y", first + i) for i in range(len(kind.said))], kind.said)
    if name == "e":
        words(axes, [at("given", i) for i in range(len(kind.said))], ("·", *kind.said[:-1]))
    if name in "bce":
        below = "given" if name == "e" else "x"
        for i in range(len(kind.said) - 1):
            back(axes, at("y", i), at(below, i + 1), 0.07 + 0.045 * len(kind.said[i]))


def words(axes: Axes, spots: Sequence[tuple[float, float]], texts: Sequence[str]) -> None:
    for (x, y), text in zip(spots, texts, strict=True):
        style.write(axes, x, y, text, family=style.SERIF if text != "↵" else style.SANS, size=12.5)


def back(axes: Axes, start: tuple[float, float], end: tuple[float, float], half: float) -> None:
    """From an output down to the next input, between two states; ``half`` is half of the word's width."""
    (x, y), (x_to, y_to) = start, end
    middle = (x + x_to) / 2
    points = [(x + half, y), (middle, y), (middle, y_to), (x_to - half, y_to)]
    axes.plot(*zip(*points, strict=True), color=style.EDGE, lw=1.1, ls=(0, (3, 2)), zorder=1)


def image(axes: Axes, centre: tuple[float, float], rows: list[str]) -> None:
    x, y = centre
    limits = axes.get_xlim(), axes.get_ylim()
    pixels = [[int(value, 16) for value in row] for row in rows]
    extent = (x - 0.24, x + 0.24, y - 0.24, y + 0.24)
    axes.imshow(pixels, cmap="gray_r", vmin=0, vmax=15, extent=extent, aspect="auto", zorder=3)
    style.frame(axes, x - 0.24, y - 0.24, 0.48, 0.48, style.EDGE, 1.0)
    axes.set(xlim=limits[0], ylim=limits[1])


def expected(name: str) -> list[list[object]]:
    """The wires by the definition: along the states, up to them from the inputs, up from them to the outputs."""
    kind = KINDS[name]
    count = len(kind.given)
    if name == "e":
        wires: list[list[object]] = [["x", i, ENCODER, i] for i in range(count)]
        wires += [[ENCODER, i, ENCODER, i + 1] for i in range(count - 1)] + [[ENCODER, count - 1, DECODER, 0]]
        wires += [["given", i, DECODER, i] for i in range(len(kind.said))]
        wires += [[DECODER, i, DECODER, i + 1] for i in range(len(kind.said) - 1)]
        return sorted(wires + [[DECODER, i, "y", i] for i in range(len(kind.said))])
    wires = [["x", i, FIRST, i] for i in range(count)] + [[FIRST, i, FIRST, i + 1] for i in range(count - 1)]
    wires += [[FIRST, i, "y", i] for i in range(count) if name != "d" or i == count - 1]
    return sorted(wires + ([[CONDITION, 0, FIRST, 0]] if name == "c" else []))


def checks(numbers: Numbers) -> list[Check]:
    """What the nets reached is judged by the figures that it is read from."""
    return [
        equal(f"{kind.title}: the wires are those of the definition", numbers[name]["wires"] == expected(name), True)
        for name, kind in KINDS.items()
    ]
