"""1.7: the bidirectional RNN (Schuster and Paliwal, 1997): a note in deck 004, Bahdanau's encoder in deck 002.

The arrows were found by running the library's Recurrent and cutting at every state (wires.py). On the right stands
which words each state depends on: the norm of its slope by each of them, as a share of the largest.
"""

import copy
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard import style
from regard.nn.recurrent import LSTMCell, Recurrent
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded
from regard_lectures.recurrent.drawing import GREY, state, word
from regard_lectures.recurrent.wires import layer_wires

TITLE = "Reading from both ends"
DECKS = ("004", "002")
CLAIM = "One net reads ahead, one reads back: together, each place knows all words. Reversed input, reversed output."
EXPECTED = (
    "Read from both ends, each place knows all words; reversing the input and swapping the directions reverses the"
    " output."
)
FOUND = (
    "The slope by a later word is 0 ahead, by an earlier one 0 back, and at least 0.03 of the largest by any word in"
    " both; the reversed output differs by 1e-16."
)
COST = 0.5
SEED = 0

WORDS = ["the", "old", "man", "the", "boats"]
DIM, HIDDEN = 4, 5
LENGTHS = (4, 6, 1)


def compute() -> Numbers:
    with seeded(SEED):
        net = Recurrent(LSTMCell, DIM, HIDDEN, bidirectional=True).double()
        x = torch.randn(1, len(WORDS), DIM, dtype=torch.float64)
        wires = layer_wires(net, x)
        slopes = torch.autograd.functional.jacobian(lambda x: net(x).outputs[0], x)[:, :, 0]  # (n, 2e, n, d)
        rows = [torch.randn(length, DIM, dtype=torch.float64) for length in LENGTHS]
        ahead, back = (part.norm(dim=(1, 3)) for part in slopes.split(HIDDEN, 1))
        return {
            "wires": [[*one, *other] for one, other in wires],
            "ahead": plain(ahead / ahead.max(), 3),
            "back": plain(back / back.max(), 3),
            "both": plain(slopes.norm(dim=(1, 3)) / slopes.norm(dim=(1, 3)).max(), 3),
            "beyond": [float(ahead.triu(1).max()), float(back.tril(-1).max())],
            "reversal": reversal(net, rows),
            "torch": theirs(net, rows),
        }


def padded(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return x, torch.tensor([[i < len(row) for i in range(x.shape[1])] for row in rows])


@torch.no_grad()
def reversal(net: Recurrent, rows: list[Tensor]) -> float:
    """Reverse each row within its own length and swap the directions: how far the output is from the reversed one."""
    swapped = copy.deepcopy(net)
    swapped.ahead, swapped.back = swapped.back, swapped.ahead
    (x, keys), (y, _) = padded(rows), padded([row.flip(0) for row in rows])
    one, two = net(x, keys=keys).outputs, swapped(y, keys=keys).outputs
    turned = [two[i, : len(row)].flip(0).roll(HIDDEN, -1) for i, row in enumerate(rows)]
    return max(float((one[i, : len(row)] - turned[i]).abs().max()) for i, row in enumerate(rows))


@torch.no_grad()
def theirs(net: Recurrent, rows: list[Tensor]) -> float:
    """How far PyTorch's own layer is on packed rows, with the same weights."""
    layer = nn.LSTM(DIM, HIDDEN, batch_first=True, bidirectional=True).double()
    weights: dict[str, Tensor] = {}
    for cell, side in zip(net.cells(), ("", "_reverse"), strict=True):
        for linear, name in ((cell.input, "ih"), (cell.recurrent, "hh")):
            weights |= {f"weight_{name}_l0{side}": linear.weight, f"bias_{name}_l0{side}": linear.bias}
    layer.load_state_dict(weights)
    x, keys = padded(rows)
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    wanted, _ = pad_packed_sequence(layer(packed)[0], batch_first=True)
    return float((net(x, keys=keys).outputs - wanted).abs().max())


LEVELS = {"x": 1.1, "ahead.0": 2.15, "back.0": 3.25, "y": 4.6}
LEFT, CELL = 7.35, (0.42, 0.23)  # of the maps


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, all arrows that a running net has. Right, which words (columns) the state at a place (row) depends on."
    )
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    places = [0.85 + 1.28 * i for i in range(len(WORDS))]
    for name, place, name_to, place_to in numbers["wires"]:
        wire(axes, (places[place], name), (places[place_to], name_to))
    for i, x in enumerate(places):
        word(axes, x, LEVELS["x"] - 0.2, WORDS[i], size=17)
        state(axes, x - 0.2, LEVELS["ahead.0"], f"$\\overrightarrow{{h}}_{i + 1}$", GREY)
        state(axes, x + 0.2, LEVELS["back.0"], f"$\\overleftarrow{{h}}_{i + 1}$", GREY)
        look = {"edge": style.KEY, "fill": style.KEY_WASH}
        state(axes, x, LEVELS["y"], f"$h_{i + 1}$", look, wide=0.7)
    style.write(axes, 0.3, 0.3, "“man” is a verb here: only what follows tells.", ha="left", size=11, color=style.SOFT)
    maps = (
        ("ahead", "$\\overrightarrow{h}$: the past"),
        ("back", "$\\overleftarrow{h}$: the future"),
        ("both", "$h$: all"),
    )
    for top, (name, text) in zip((4.98, 3.24, 1.5), maps, strict=True):
        style.cells(axes, LEFT, top, numbers[name], CELL, limit=1.0)
        style.write(axes, LEFT, top + 0.18, text, ha="left", size=13)
        for i, said in enumerate(WORDS):
            small: dict[str, Any] = {"family": style.SERIF, "size": 10, "color": style.SOFT}
            style.write(axes, LEFT - 0.06, top - (i + 0.5) * CELL[1], said, ha="right", **small)
            style.write(axes, LEFT + (i + 0.5) * CELL[0], top - len(WORDS) * CELL[1] - 0.1, said, **small)
    return figure


def wire(axes: Axes, start: tuple[float, str], end: tuple[float, str]) -> None:
    (x, name), (x_to, name_to) = start, end
    y, y_to = LEVELS[name], LEVELS[name_to]
    shift = {"ahead.0": -0.2, "back.0": 0.2}
    if name == name_to:
        side = 1 if x_to > x else -1
        middle = x + shift[name], x_to + shift[name]
        style.arrow(axes, (middle[0] + side * 0.3, y), (middle[1] - side * 0.3, y), color=style.INK, line=1.7)
        return
    across = shift[name_to] if name == "x" else shift[name]
    style.arrow(axes, (x + across, y + (0.12 if name == "x" else 0.22)), (x + across, y_to - 0.22), zorder=1)


def checks(numbers: Numbers) -> list[Check]:
    last = len(WORDS) - 1
    sideways = {(one, way - here) for one, here, other, way in numbers["wires"] if one == other}
    return [
        equal("arrows along the words", str(sorted(sideways)), "[('ahead.0', 1), ('back.0', -1)]"),
        equal("ahead: slope by a later word", numbers["beyond"][0], 0.0),
        equal("back: slope by an earlier word", numbers["beyond"][1], 0.0),
        above("both: least slope by any word", min(min(row) for row in numbers["both"]), 0.0),
        below("reversed input, swapped directions: output against the reversed one", numbers["reversal"], 1e-12),
        below("PyTorch's own layer on packed rows, largest difference", numbers["torch"], 1e-12),
        equal("arrows in all", len(numbers["wires"]), 4 * (last + 1) + 2 * last),
    ]
