"""1.10d: how far a word travels from where it is read to where its translation is written, counted in a running net.

The lag is the number of steps from state to state on the shortest way, through arrows that were found by cutting the
net at every state (wires.py): Sutskever's net with its words read in order and in reverse, and Bahdanau's beside it.
"""

from dataclasses import replace

import torch
from matplotlib.figure import Figure

from regard import style
from regard.models.rnn import Config, RNNTranslator
from regard_lectures.figure import Check, Numbers, close, equal, seeded
from regard_lectures.recurrent.wires import CONTEXT, Node, shortest, translator_wires

TITLE = "How far a word travels"
DECKS = ("004",)
CLAIM = "The lag of word i of N is N; read in reverse it is 2i − 1: as long on average, but short for the first words."
EXPECTED = "The lag of word i of N is N if the source is read in order, and 2i - 1 if it is read in reverse."
FOUND = (
    "Of 12 words all lags are 12 in order, and 1, 3, ... 23 in reverse, 12 on average; with attention no step lies"
    " between."
)
COST = 0.7
SEED = 0

COUNT = 12
SMALL = Config(vocab=9, target_vocab=9, dim=4, hidden=5, align=4, maxout=4)
KINDS = {
    "in order": replace(SMALL, decoder="sutskever", bidirectional=False),
    "in reverse": replace(SMALL, decoder="sutskever", bidirectional=False, backwards=True),
    "attention": replace(SMALL, decoder="bahdanau"),
}


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, config in KINDS.items():
        with seeded(SEED):
            net = RNNTranslator(config).double()
            wires = translator_wires(net, torch.randint(9, (1, COUNT)), torch.randint(9, (1, COUNT)))
        ways = [shortest(wires, Node("x", i), Node("y", i)) for i in range(COUNT)]
        numbers[name] = [len([node for node in way if node.name != CONTEXT]) - 1 for way in ways]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"Steps from state to state between word $i$ of {COUNT} and its translation, counted in running nets."
    figure = style.page(TITLE, note, height=4.9)
    axes = figure.subplots()
    labels = {
        "in order": ("read in order: $N$", style.SECOND),
        "in reverse": ("read in reverse: $2i - 1$", style.WEIGHT),
        "attention": ("with attention: none", style.KEY),
    }
    for name, (text, tint) in labels.items():
        axes.plot(range(1, COUNT + 1), numbers[name], color=tint, marker="o")
        style.end_label(axes, COUNT, numbers[name][-1], text, tint, dy=9 if name != "in reverse" else 0)
    axes.set(xlabel="word $i$", xlim=(0.7, COUNT * 1.3), xticks=range(1, COUNT + 1), yticks=[0, 6, 12, 18, 24])
    axes.set_title("lag")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    turned = numbers["in reverse"]
    return [
        equal("read in order: the lag of every word is N", str(numbers["in order"]), str([COUNT] * COUNT)),
        equal("read in reverse: the lag of word i is 2i - 1", str(turned), str([2 * i + 1 for i in range(COUNT)])),
        close("read in reverse: the mean lag is N as well", sum(turned) / COUNT, COUNT, 1e-12),
        equal("with attention: no step from state to state", max(numbers["attention"]), 0),
    ]
