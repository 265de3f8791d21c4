"""1.10: "A bird flies through the window" in an unrolled encoder-decoder, and read in reverse (deck 004).

The net is Sutskever's, small and trained (flight.py); the sentence is new to it. All arrows were found by running it
and cutting at every state (wires.py), and the numbers above the words are the states on the way through those arrows.
"""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, aside, equal
from regard_lectures.recurrent.drawing import GREY, LIT, state, word
from regard_lectures.recurrent.flight import SHOWN, START, Flight, train
from regard_lectures.recurrent.wires import Node, shortest, translator_wires

TITLE = "“A bird flies through the window”"
DECKS = ("004",)
CLAIM = "Each word travels through 7 states; read in reverse, the first through 2, the last through 12."
EXPECTED = "A word read in order passes 7 states to its translation; read in reverse, word i passes 2i."
FOUND = (
    "7 states for each of six words in order, and 2, 4, 6, 8, 10 and 12 in reverse; both nets translate the new"
    " sentence rightly."
)
COST = 8.0
SEED = 0

ENGLISH, GERMAN = (text.split() for text in SHOWN)
COUNT = len(ENGLISH)
READ, WROTE = "encoder.ahead.0", "decoder.rnn.ahead.0"


def compute() -> Numbers:
    return {
        "forward": unrolled(train(SEED, "sutskever", steps=500)),
        "reversed": unrolled(train(SEED, "sutskever", backwards=True, steps=500)),
    }


def unrolled(flight: Flight) -> Numbers:
    source, target = flight.source([ENGLISH]), flight.target([[START, *GERMAN[:-1]]])
    wires = translator_wires(flight.net, source, target)
    ways = [shortest(wires, Node("x", i), Node("y", i)) for i in range(COUNT)]
    return {
        "wires": [[*one, *other] for one, other in wires],
        "states": [len(way) for way in ways],
        "first": [list(node) for node in ways[0]],
        "said": " ".join(flight.translate([ENGLISH])[0]),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Every arrow of a trained net; in colour, the way of the first word to its translation. Grey: written before."
    )
    figure = style.page(TITLE, note, height=6.55)
    axes = style.stage(figure)
    rows = ((3.5, "forward", "read in order"), (0.55, "reversed", "read in reverse"))
    for y, name, text in rows:
        style.write(axes, 0.3, y + 1.6, text, ha="left", va="baseline", size=13, weight="bold")
        unroll(axes, y, numbers[name], backwards=name == "reversed")
    axes.plot([0.3, 9.7], [2.78] * 2, color=style.LINE, lw=1.2)
    return figure


def across(name: str, place: int, backwards: bool) -> float:
    """Where a word stands: the source on the left in the order in which it is read."""
    reading = name in (READ, "x")
    column = (COUNT - 1 - place if backwards else place) if reading else COUNT + place
    return 0.62 + 0.79 * column + (0.12 if not reading else 0)


def unroll(axes: Axes, y: float, found: Numbers, *, backwards: bool) -> None:
    way = [tuple(node) for node in found["first"]]
    middle = y + 0.65
    lit = [("x", 0), *way, ("y", 0)]
    for name, place, name_to, place_to in found["wires"]:
        tint, line = style.SOFT, 1.4
        if ((name, place), (name_to, place_to)) in pairwise(lit):
            tint, line = style.WEIGHT, 2.4
        start, end = across(name, place, backwards), across(name_to, place_to, backwards)
        if name in (READ, WROTE) and name_to != "y":
            style.arrow(axes, (start + 0.26, middle), (end - 0.26, middle), color=tint, line=line, head=7)
        elif name_to == "y":
            style.arrow(axes, (start, middle + 0.21), (end, middle + 0.55), color=tint, line=line)
        else:
            faint = style.EDGE if name == "given" else tint
            style.arrow(axes, (start, y + 0.13), (end, middle - 0.21), color=faint, line=line)
    given = [START, *GERMAN[:-1]]
    for i in range(COUNT):
        inside = {READ: f"$h_{i + 1}$", WROTE: f"$h\\prime_{i + 1}$"}
        for name, text in inside.items():
            x = across(name, i, backwards)
            state(axes, x, middle, text, LIT if (name, i) in way else GREY, wide=0.5)
        tint = style.WEIGHT if i == 0 else style.INK
        word(axes, across("x", i, backwards), y - 0.1, ENGLISH[i], size=13.5, color=tint)
        word(axes, across(WROTE, i, backwards), y - 0.1, given[i], size=12, color=style.EDGE)
        word(axes, across(WROTE, i, backwards), middle + 0.63, GERMAN[i], size=13.5, color=tint)
        style.write(
            axes,
            across(WROTE, i, backwards),
            middle + 1.0,
            str(found["states"][i]),
            size=13,
            color=style.WEIGHT,
            weight="bold",
        )
    style.write(
        axes,
        across(WROTE, 0, backwards) - 0.35,
        middle + 1.0,
        "states on the way",
        size=11,
        color=style.SOFT,
        ha="right",
    )


def checks(numbers: Numbers) -> list[Check]:
    forward, turned = numbers["forward"], numbers["reversed"]
    names = sorted({(one, other) for one, _, other, _ in forward["wires"]})
    kinds = [("decoder.rnn.ahead.0", "decoder.rnn.ahead.0"), ("decoder.rnn.ahead.0", "y")]
    kinds += [("encoder.ahead.0", "decoder.rnn.ahead.0"), ("encoder.ahead.0", "encoder.ahead.0")]
    kinds += [("given", "decoder.rnn.ahead.0"), ("x", "encoder.ahead.0")]
    bridges = [wire for wire in forward["wires"] if (wire[0], wire[2]) == (READ, WROTE)]
    return [
        equal("read in order: states on the way of each word", str(forward["states"]), str([COUNT + 1] * COUNT)),
        equal("read in reverse: states on the way of word i, 2i", str(turned["states"]), str(list(range(2, 13, 2)))),
        equal("what is joined to what", names == kinds, True),
        equal("arrows from the encoder to the decoder: from its last state to the first", len(bridges), 1),
        aside(equal("read in order it says", forward["said"], SHOWN[1])),
        aside(equal("read in reverse it says", turned["said"], SHOWN[1])),
    ]
