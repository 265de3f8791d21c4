"""2.5e: deck 003's figure 9, a grid of head maps. Eight heads that learned to name the eight nearest words.

The same toy as 2.5d with more neighbours: nobody tells a head which of them to look for; they share the work out.
"""

import torch
from matplotlib.figure import Figure

from regard import style
from regard_lectures.attention.two_lookups import Copier, accuracy, maps, train
from regard_lectures.figure import Check, Numbers, above, plain, seeded

TITLE = "Eight heads share the work out"
DECKS = ("003", "002")
CLAIM = "Eight heads, trained to name the eight nearest words, come to look at different places; all words are found."
EXPECTED = "Trained to name the eight nearest words, heads come to look at different places and find all words."
FOUND = "8 heads look at 8 different places, and all words are named rightly, in one start."
COST = 6.7
SEED = 0

OFFSETS = (-4, -3, -2, -1, 1, 2, 3, 4)
LENGTH = 14


def compute() -> Numbers:
    with seeded(SEED):
        model = Copier(8, OFFSETS, LENGTH, dim=128)
        train(model, LENGTH, steps=400, rate=0.005)
        found, right = maps(model, LENGTH), accuracy(model, LENGTH)
    places = torch.arange(LENGTH)
    diagonals = torch.stack([found[:, places, (places + offset) % LENGTH].mean(-1) for offset in OFFSETS], -1)
    return {
        "maps": plain(found, 3),
        "accuracy": right,
        "offsets": list(OFFSETS),
        "diagonals": plain(diagonals),
        "favourites": [OFFSETS[int(i)] for i in diagonals.argmax(-1)],
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Each place must name its four neighbours on either side (a sentence is a ring). Rows: queries, columns: keys."
    )
    figure = style.page(TITLE, note, height=6.9)
    panels = figure.subplots(2, 4)
    for head, (axes, table) in enumerate(zip(panels.flat, numbers["maps"], strict=True)):
        style.heatmap(axes, table)
        axes.set_title(f"head {head}: most at {numbers['favourites'][head]:+d}".replace("-", "−"), size=11)
    style.scale(figure, list(panels.flat), label="mean weight over 200 sentences")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        above("words named rightly, worst of the eight neighbours", min(numbers["accuracy"]), 0.9),
        above("different places that some head looks at most", len(set(numbers["favourites"])), 5),
    ]
