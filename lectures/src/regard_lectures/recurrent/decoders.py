"""1.10b: three ways from the encoder to the decoder (att_encoderdecoder_sutskever, _cho and _bahdanau of deck 004).

Each diagram is of one of the library's presets, made small and run: its arrows were found by cutting the net at every
state (wires.py). The numbers below are of the preset itself, its weights counted.
"""

from dataclasses import replace

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.rnn import PRESETS, RNNTranslator
from regard_lectures.figure import Check, Numbers, equal, seeded, within
from regard_lectures.recurrent.drawing import GREY, LIT, state
from regard_lectures.recurrent.wires import CONTEXT, translator_wires

TITLE = "Three ways from the encoder to the decoder"
DECKS = ("004",)
CLAIM = "Sutskever hands the last state over once, Cho at every step; Bahdanau looks at all states at every step."
EXPECTED = (
    "Sutskever hands the last state over once, Cho at every step, Bahdanau looks at all states; Sutskever’s net has"
    " 384 million weights."
)
FOUND = "The wires found are those three, and Sutskever’s preset has 1.0004 times the paper’s number of weights."
COST = 1.0
SEED = 0

TITLES = {"rnn-sutskever": "Sutskever et al. (2014)", "rnn-cho": "Cho et al. (2014)"}
TITLES |= {"rnn-bahdanau": "Bahdanau et al. (2015)"}
SOURCE, TARGET = 4, 3
AHEAD, BACK, WROTE = "encoder.ahead.0", "encoder.back.0", "decoder.rnn.ahead.0"
ASKS = {"edge": style.QUERY, "fill": style.QUERY_WASH}
PAPER = 384  # million weights, as Sutskever et al. (2014) print them, section 3.4


def compute() -> Numbers:
    numbers: Numbers = {}
    for name in TITLES:
        preset = PRESETS[name]
        small = replace(preset, vocab=9, target_vocab=9, dim=4, hidden=5, depth=1, align=4, maxout=4)
        with seeded(SEED):
            net = RNNTranslator(small).double()
            wires = translator_wires(net, torch.randint(9, (1, SOURCE)), torch.randint(9, (1, TARGET)))
        with torch.device("meta"):
            weights = sum(weight.numel() for weight in RNNTranslator(preset).parameters())
        numbers[name] = {
            "wires": [[*one, *other] for one, other in wires],
            "backwards": preset.backwards,
            "cell": preset.cell,
            "depth": preset.depth,
            "hidden": preset.hidden,
            "dim": preset.dim,
            "vocab": [preset.vocab, preset.target_vocab or preset.vocab],
            "weights": weights,
        }
    return numbers


ROWS = {"x": 1.72, AHEAD: 2.42, CONTEXT: 4.1, WROTE: 4.85, "y": 5.5}
TWO = {AHEAD: 2.15, BACK: 2.68, "h": 3.25}  # where the encoder reads from both ends
SIDE = {AHEAD: -0.13, BACK: 0.13}
PALE = 0.3


def draw(numbers: Numbers) -> Figure:
    note = (
        "Every arrow of a running net, but those from the word before, which all decoders read. For Bahdanau, the\n"
        "look for the second word is in colour: who asks, who is asked, and what is found."
    )
    figure = style.page(TITLE, note, height=7.7)
    axes = style.stage(figure)
    for left, (name, found) in zip((0.3, 3.5, 6.7), numbers.items(), strict=True):
        style.write(axes, left, 6.05, TITLES[name], ha="left", va="baseline", size=13, weight="bold")
        Diagram(axes, left, found).draw()
        below_it(axes, left, found)
    return figure


class Diagram:
    def __init__(self, axes: Axes, left: float, found: Numbers) -> None:
        self.axes, self.left, self.found = axes, left, found
        names = {name for wire in found["wires"] for name in (wire[0], wire[2])}
        self.looks, self.cells = CONTEXT in names, sorted(names & {AHEAD, BACK})
        self.rows = ROWS | TWO if self.looks else ROWS

    def at(self, name: str, place: int) -> tuple[float, float]:
        """The middle of a state or a word; the source stands in the order in which it is read."""
        if name in ("x", "h", AHEAD, BACK):
            column = SOURCE - 1 - place if self.found["backwards"] else place
            aside = SIDE.get(name, 0) if self.looks else 0
            return self.left + 0.32 + 0.72 * column + aside, self.rows[name]
        return self.left + 0.5 + 0.95 * place, self.rows[name]

    def draw(self) -> None:
        for name, place, name_to, place_to in self.found["wires"]:
            if name != "given":
                self.wire(name, self.at(name, place), name_to, self.at(name_to, place_to), place_to == 1)
        for i in range(SOURCE):
            x, y = self.at("x", i)
            style.write(self.axes, x, y - 0.1, f"$x_{i + 1}$", size=14)
            for name in self.cells:
                text = {AHEAD: "→", BACK: "←"}[name] if self.looks else f"$h_{i + 1}$"
                state(self.axes, *self.at(name, i), text, GREY, wide=0.36 if self.looks else 0.42)
            if self.looks:
                self.joined(i)
        for i in range(TARGET):
            x, y = self.at("y", i)
            state(
                self.axes, *self.at(WROTE, i), f"$h\\prime_{i + 1}$", ASKS if self.looks and i == 0 else GREY, wide=0.46
            )
            style.write(self.axes, x, y + 0.12, f"$y_{i + 1}$", size=14)
            if self.looks:
                look = LIT if i == 1 else {"edge": style.EDGE, "fill": "white"}
                state(self.axes, *self.at(CONTEXT, i), f"$c_{i + 1}$", look, wide=0.42)

    def joined(self, place: int) -> None:
        """Both directions side by side are what is looked at."""
        x, y = self.at("h", place)
        for name in self.cells:
            start = self.at(name, place)
            style.arrow(self.axes, (start[0], start[1] + 0.2), (start[0], y - 0.19), head=6, line=1.2, zorder=1)
        state(self.axes, x, y, f"$h_{place + 1}$", {"edge": style.KEY, "fill": style.KEY_WASH}, wide=0.54)

    def wire(self, name: str, start: tuple[float, float], name_to: str, end: tuple[float, float], second: bool) -> None:
        (x, y), (x_to, y_to) = start, end
        kinds = name, name_to
        if name == name_to:
            side = (0.2 if self.looks and name != WROTE else 0.24) * (1 if x_to > x else -1)
            style.arrow(self.axes, (x + side, y), (x_to - side, y), head=7)
        elif name == "x":
            style.arrow(self.axes, (x_to, y + 0.06), (x_to, y_to - 0.21), head=7, zorder=1)
        elif kinds == (AHEAD, CONTEXT):  # with the one back, as one line
            tint = style.KEY if second else style.mix(style.KEY, PALE)
            low = x - SIDE[AHEAD], self.rows["h"] + 0.2
            style.arrow(self.axes, low, (x_to, y_to - 0.2), color=tint, head=0, line=2 if second else 0.9, zorder=1)
        elif kinds == (WROTE, CONTEXT):
            tint = style.QUERY if second else style.mix(style.QUERY, PALE)
            style.arrow(self.axes, (x + 0.2, y - 0.2), (x_to - 0.23, y_to + 0.06), color=tint, head=8, line=2)
        elif kinds == (CONTEXT, WROTE):
            tint = style.WEIGHT if second else style.mix(style.WEIGHT, PALE)
            style.arrow(self.axes, (x, y + 0.2), (x_to, y_to - 0.21), color=tint, head=8, line=2)
        elif name == BACK and name_to != CONTEXT:  # Bahdanau's first state is made of the end of the way back
            far = self.left
            points = [(x - 0.18, y), (far, y), (far, y_to + (0.12 if name_to == "y" else 0))]
            style.route(self.axes, [*points, (x_to - (0.16 if name_to == "y" else 0.24), points[-1][1])], head=7)
        elif kinds == (WROTE, "y") and x == x_to:
            style.arrow(self.axes, (x, y + 0.21), (x_to, y_to), head=7)
        elif kinds == (WROTE, "y"):
            style.arrow(self.axes, (x + 0.2, y + 0.2), (x_to - 0.14, y_to + 0.04), head=7, line=1.2)
        elif kinds == (CONTEXT, "y"):
            tint = style.mix(style.WEIGHT, 0.6 if second else PALE)
            points = [(x + 0.21, y), (x + 0.36, y), (x + 0.36, y_to + 0.12), (x_to + 0.15, y_to + 0.12)]
            style.route(self.axes, points, color=tint, line=1.2, head=6, zorder=1)
        elif name == AHEAD and name_to == WROTE:
            style.arrow(self.axes, (x, y + 0.21), (x_to, y_to - 0.21), color=style.WEIGHT, line=2)
        elif name == AHEAD:  # past the state, to the word
            tint = style.mix(style.WEIGHT, 0.5)
            style.arrow(self.axes, (x + 0.1, y + 0.21), (x_to + 0.1, y_to), color=tint, line=1.2, head=6, zorder=1)


def below_it(axes: Axes, left: float, found: Numbers) -> None:
    """The sizes of the preset."""
    layers = "1 layer" if found["depth"] == 1 else f"{found['depth']} layers"
    kind = {"lstm": "LSTM", "gru_before": "GRU", "gru": "GRU"}[found["cell"]]
    vocab = " / ".join(f"{size // 1000}k" for size in dict.fromkeys(found["vocab"]))
    says = [
        f"{kind}, {layers} of {found['hidden']:,}",
        f"vectors of {found['dim']}, {vocab} words",
        f"{found['weights'] / 1e6:.1f} million weights",
    ]
    for i, text in enumerate(says):
        style.write(axes, left, 0.88 - 0.27 * i, text, ha="left", va="baseline", size=11, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    sutskever, cho, bahdanau = numbers.values()

    def between(found: Numbers, name: str, name_to: str) -> list[list[int]]:
        """Pairs of places."""
        return sorted([wire[1], wire[3]] for wire in found["wires"] if (wire[0], wire[2]) == (name, name_to))

    every = [[place, step] for place in range(SOURCE) for step in range(TARGET)]
    return [
        equal("Sutskever: from the encoder to the decoder", str(between(sutskever, AHEAD, WROTE)), "[[0, 0]]"),
        equal("Cho: from its last state to every state", str(between(cho, AHEAD, WROTE)), "[[3, 0], [3, 1], [3, 2]]"),
        equal("Cho: and to every word", str(between(cho, AHEAD, "y")), "[[3, 0], [3, 1], [3, 2]]"),
        equal("Bahdanau: all words to every look, ahead", between(bahdanau, AHEAD, CONTEXT) == every, True),
        equal("Bahdanau: all words to every look, back", between(bahdanau, BACK, CONTEXT) == every, True),
        equal("Bahdanau: who looks is the state before", str(between(bahdanau, WROTE, CONTEXT)), "[[0, 1], [1, 2]]"),
        equal("Bahdanau: it starts from the way back, at word 1", str(between(bahdanau, BACK, WROTE)), "[[0, 0]]"),
        within("Sutskever: weights counted over the paper's number", sutskever["weights"] / 1e6 / PAPER, 0.999, 1.001),
    ]
