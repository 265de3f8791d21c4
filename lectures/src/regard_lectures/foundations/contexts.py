"""1.2b: why n cannot grow: a table for every history has v^(n - 1) rows, and no text fills them."""

from itertools import pairwise
from math import log10

import numpy as np
from matplotlib.figure import Figure

from regard import style
from regard.models.ngram import AddK, IntArray, NGram
from regard_lectures.figure import Check, Numbers, above, below, equal
from regard_lectures.foundations.play import numbered, words

TITLE = "Histories that nobody has seen"
DECKS = ("004",)
CLAIM = (
    "Possible histories grow exponentially with n; those in a text are fewer than its letters, and soon occur but once."
)
EXPECTED = "Possible histories grow exponentially with n, and a text can fill ever fewer of them."
FOUND = (
    "At n = 8 one in 10^7 possible histories occurs in the text, 68 % of those occur once, and 50 % of the letters"
    " held out were seen after theirs."
)
COST = 8.0
SEED = 0

ORDERS = range(1, 9)


def compute() -> Numbers:
    play = numbered(words())
    numbers: Numbers = {"letters": len(play.letters), "counted": len(play.train), "seen": [], "once": [], "known": []}
    for order in ORDERS:
        model = NGram(order, play.vocab, play.end, AddK(0.0)).learn([play.train])
        numbers["seen"].append(model.histories())
        numbers["once"].append(float(f"{(model.tables[-1].totals == 1).mean():.4g}"))
        known = np.isin(runs(play.held_out, order), runs(play.train, order)).mean()
        numbers["known"].append(float(f"{known:.4g}"))
    return numbers


def runs(ids: IntArray, order: int) -> IntArray:
    """All that many letters in a row, each row as one number."""
    rows = np.lib.stride_tricks.sliding_window_view(ids, order)
    return rows @ (int(ids.max()) + 67) ** np.arange(order)


def possible(numbers: Numbers) -> list[float]:
    return [float(numbers["letters"]) ** (order - 1) for order in ORDERS]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Histories of n − 1 letters, of {numbers['letters']} there are. Left: those that could be, and those in "
        f"{numbers['counted'] / 1e6:.1f} million letters of Shakespeare.\n"
        "Right: how many of them occur once only; and the share of letters held out that were seen after their history."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2)
    left.plot(ORDERS, possible(numbers), "o-", color=style.SECOND)
    left.plot(ORDERS, numbers["seen"], "o-", color=style.WEIGHT)
    left.axhline(numbers["counted"], color=style.EDGE, lw=1.1, ls=(0, (4, 3)))
    left.text(1, numbers["counted"] * 1.6, "letters of the text", color=style.SOFT, size=10.5)
    left.text(5.1, possible(numbers)[5] * 3, "$65^{n-1}$, possible", color=style.SECOND, weight="bold", ha="right")
    left.text(8, numbers["seen"][-1] / 6, "seen", color=style.WEIGHT, weight="bold", ha="right")
    left.set(yscale="log", ylim=(0.5, 3e13))
    left.set_yticks([1, 1e3, 1e6, 1e9, 1e12], ["1", "thousand", "million", "billion", "trillion"])
    right.plot(ORDERS, numbers["once"], "o-", color=style.WEIGHT)
    right.plot(ORDERS, numbers["known"], "o-", color=style.KEY)
    right.text(8, 0.2, "histories seen once", color=style.WEIGHT, weight="bold", ha="right")
    right.text(1, 0.79, "letters held out, seen\nafter their history", color=style.KEY, weight="bold", linespacing=1.4)
    right.set(ylim=(-0.03, 1.05))
    right.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    for axes in (left, right):
        axes.set(xlabel="$n$", xticks=list(ORDERS))
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    seen, share = numbers["seen"], numbers["seen"][-1] / possible(numbers)[-1]
    growth = [after / before for before, after in pairwise(seen)]
    return [
        equal("histories of n = 1", seen[0], 1),
        above("growth of those that are seen, from n to n + 1, least", min(growth), 1.0),
        below(
            "share of possible histories that are seen, one n over the n before, n > 2, largest",
            max(growth[1:]) / numbers["letters"],
            1.0,
        ),
        above("by how many times less they grow at the end than possible ones", numbers["letters"] / growth[-1], 10.0),
        below("share of possible histories that are seen, n = 8, as a power of ten", log10(share), -6.0),
        below("histories of n = 8 over letters of the text", seen[-1] / numbers["counted"], 1.0),
        above("share of histories seen once, n = 8", numbers["once"][-1], 0.5),
        below("share of letters held out that were seen after their history, n = 8", numbers["known"][-1], 0.7),
    ]
