"""3.7c: deck 002's slide that sets the RNN with attention (Bahdanau et al., 2015) beside the Transformer.

Both are built from the library's layers and run on sentences of several lengths while their calls are counted: the
RNN must take as many steps one after the other as there are words, the Transformer as many as it has layers.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.transformer import PRESETS, Config, Transformer
from regard.nn.attention import MultiHeadAttention
from regard.nn.kernels.additive import Additive
from regard.nn.recurrent import GRUCell, Recurrent
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded
from regard_lectures.recurrent.drawing import GREY, LIT, state
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, transformer

TITLE = "From the RNN with attention to the Transformer"
DECKS = ("002",)
CLAIM = "An RNN reads n words in n steps, one after the other; a Transformer in as many as it has layers, whatever n."
EXPECTED = "An RNN reads n words in n steps, one after the other, a Transformer in as many as it has layers."
FOUND = "4, 8, 16 and 32 steps for as many words in the RNN, and 6 in the Transformer at each length."
COST = 2.0
SEED = 0

LENGTHS = [4, 8, 16, 32]
DIM, DEPTH = 16, 6


class Searcher(nn.Module):
    """Bahdanau's encoder and one step of its decoder: c_t = sum_j alpha_tj h_j, from what the decoder said before."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Recurrent(GRUCell, DIM, DIM // 2, bidirectional=True)
        self.attention = MultiHeadAttention(DIM, 1, kernel=Additive(1, DIM))
        self.decoder = GRUCell(2 * DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, d): a decoder state for every word"""
        h = self.encoder(x).outputs
        state, said = {"h": x.new_zeros(len(x), DIM)}, []
        for t in range(x.shape[1]):
            context = self.attention(state["h"][:, None], h)[:, 0]
            state = self.decoder(torch.cat((x[:, t], context), -1), state)
            said.append(state["h"])
        return torch.stack(said, 1)


def compute() -> Numbers:
    numbers: Numbers = {
        "lengths": LENGTHS,
        "anatomy": dissect(PRESETS["transformer-base"]),
        "rnn": [],
        "transformer": [],
    }
    with seeded(SEED), torch.no_grad():
        rnn = Searcher()
        model = Transformer(Config(vocab=16, dim=DIM, depth=DEPTH, heads=2, hidden=32)).eval()
        for length in LENGTHS:
            with capture(rnn, "encoder.ahead.0.h") as steps:
                rnn(torch.randn(1, length, DIM))
            numbers["rnn"].append(len(steps["encoder.ahead.0.h"]))
            with capture(model, "encoder.*.stream") as layers:
                model.encode(torch.randint(16, (1, length)))
            numbers["transformer"].append(sum(len(calls) for calls in layers.values()))
        with capture(rnn, "attention.weights") as seen:
            rnn(torch.randn(1, 4, DIM))
    weights = torch.cat([row[0, 0] for row in seen["attention.weights"]])
    numbers["rows"] = float((weights.sum(1) - 1).abs().max())
    numbers["weights"] = plain(weights[2], 3)
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = "Left, Bahdanau et al. (2015): RNNs and a search between them. Right: no recurrence is left."
    figure = style.page(TITLE, note, height=7.2)
    axes = style.stage(figure)
    style.write(axes, 0.3, 5.75, "RNN with attention", ha="left", va="baseline", size=13, weight="bold")
    style.write(axes, 5.15, 5.75, "Transformer", ha="left", va="baseline", size=13, weight="bold")
    recurrent(axes, 0.45, numbers)
    words = ("source", "target, shifted right", "next word")
    transformer(axes, 5.42, 0.55, numbers["anatomy"], Look(unit=0.645), words)
    long = numbers["lengths"][-1]
    says = (
        f"{numbers['rnn'][-1]} steps in a row to read {long} words",
        f"{numbers['transformer'][-1]} steps in a row to read {long} words",
    )
    for x, text in zip((0.3, 5.15), says, strict=True):
        style.write(axes, x, 0.22, text, ha="left", va="baseline", size=11, color=style.WEIGHT, weight="bold")
    return figure


def recurrent(axes: Axes, left: float, numbers: Numbers) -> None:
    """Four words read from both ends, each way by itself; the third word is written from the state before it."""
    places = [left + 0.45 + 1.05 * i for i in range(4)]
    for i, x in enumerate(places):
        style.write(axes, x, 0.72, f"$x_{i + 1}$", size=15)
        for y, sign, aside in ((1.3, "→", -0.16), (1.86, "←", 0.16)):
            style.arrow(axes, (x + aside, 0.87), (x + aside, y - 0.21), zorder=1, head=7)
            style.arrow(axes, (x + aside, y + 0.2), (x + aside, 2.41), zorder=1, head=7)
            state(axes, x + aside, y, sign, GREY, wide=0.42)
            if i:
                ends = places[i - 1] + aside + 0.22, x + aside - 0.22
                start, end = ends if sign == "→" else ends[::-1]
                style.arrow(axes, (start, y), (end, y), head=7)
        state(axes, x, 2.62, f"$h_{i + 1}$", {"edge": style.KEY, "fill": style.KEY_WASH}, wide=0.66)
        line = 0.8 + 6 * numbers["weights"][i]
        style.arrow(axes, (x, 2.84), (places[1] + 0.5, 3.52), color=style.WEIGHT, line=line, head=0, zorder=1)
        style.write(axes, x + (0.3 if i > 1 else -0.3), 3.02, f"$\\alpha_{{3{i + 1}}}$", size=12, color=style.WEIGHT)
    writing(axes, places[0], places[1] + 0.5, places[3])


def writing(axes: Axes, first: float, centre: float, last: float) -> None:
    """y_3 is made of the state before, of what was found and of the word before, as in the paper's appendix."""
    style.box(axes, centre - 0.75, 3.52, 1.5, 0.4, "$c_3 = \\Sigma_j\\, \\alpha_{3j} h_j$", size=13, **LIT)
    state(axes, first, 4.52, "$s_2$", {"edge": style.QUERY, "fill": style.QUERY_WASH}, wide=0.6)
    state(axes, last, 4.52, "$s_3$", GREY, wide=0.6)
    style.write(axes, centre, 5.3, "$y_3$", size=15)
    style.write(axes, last, 5.3, "$y_2$", size=15, color=style.EDGE)
    style.arrow(axes, (first + 0.31, 4.52), (last - 0.31, 4.52), head=7)
    style.route(axes, [(first, 4.31), (first, 3.72), (centre - 0.77, 3.72)], color=style.QUERY, corner=0.1)
    style.route(axes, [(first, 4.73), (first, 5.3), (centre - 0.2, 5.3)], color=style.QUERY, corner=0.1)
    style.arrow(axes, (centre, 3.94), (centre, 5.12), color=style.WEIGHT)
    style.route(axes, [(centre + 0.77, 3.72), (last, 3.72), (last, 4.31)], color=style.WEIGHT, corner=0.1)
    style.arrow(axes, (last, 5.14), (last, 4.73), color=style.EDGE)
    style.arrow(axes, (last - 0.2, 5.3), (centre + 0.2, 5.3), color=style.EDGE)


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal("RNN: steps of the encoder in a row", str(numbers["rnn"]), str(numbers["lengths"])),
        equal("Transformer: steps of the encoder in a row", str(numbers["transformer"]), str([DEPTH] * len(LENGTHS))),
        below("RNN: the weights of each word add up to one (difference)", numbers["rows"], 1e-5),
    ]
