"""1.4b: single-layer and multi-layer RNNs, unrolled (att_RNN1b and att_RNN2b of deck 004).

Arrows are those that were found by running the library's Recurrent and cutting at every state (wires.py); the cells are
the numbers of its states. Each row has its own two matrices, which all of its steps share.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import Recurrent, RNNCell
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded
from regard_lectures.recurrent.drawing import column
from regard_lectures.recurrent.wires import layer_wires

TITLE = "One layer, and three of them"
DECKS = ("004",)
CLAIM = "In a multi-layer RNN each state is made of the one before it and the one below it, and of nothing else."
EXPECTED = (
    "In an RNN of several layers each state is made of the state before it and of the one below it, and the layers"
    " are PyTorch’s."
)
FOUND = (
    "The 11 arrows of one layer and the 25 of three are those of the definition; the difference to PyTorch’s layers"
    " is 0."
)
COST = 0.5
SEED = 1

DIM, HIDDEN, STEPS = 3, 4, 4
DEPTHS = (1, 3)


def compute() -> Numbers:
    numbers: Numbers = {}
    for depth in DEPTHS:
        with seeded(SEED):
            net = Recurrent(RNNCell, DIM, HIDDEN, depth).double()
            x = torch.randn(1, STEPS, DIM, dtype=torch.float64)
            wires = layer_wires(net, x)
        with capture(net, "*.h") as seen, torch.no_grad():
            net(x)
        numbers[str(depth)] = {
            "wires": [[*one, *other] for one, other in wires],
            "x": plain(x[0], 3),
            "states": [plain(torch.cat(seen[f"ahead.{i}.h"]), 3) for i in range(depth)],
            "shapes": [[list(cell.input.weight.shape), list(cell.recurrent.weight.shape)] for cell in net.cells()],
            "torch": theirs(net, x),
        }
    return numbers


def theirs(net: Recurrent, x: Tensor) -> float:
    """How far PyTorch's own layers are, with the same weights."""
    layers = nn.RNN(DIM, HIDDEN, len(net.ahead), batch_first=True).double()
    weights: dict[str, Tensor] = {}
    for i, cell in enumerate(net.cells()):
        for linear, name in ((cell.input, "ih"), (cell.recurrent, "hh")):
            weights |= {f"weight_{name}_l{i}": linear.weight, f"bias_{name}_l{i}": linear.bias}
    layers.load_state_dict(weights)
    return float((layers(x)[0] - net(x).outputs).abs().max().detach())


FLOOR, STOREY = 0.75, 1.16


def draw(numbers: Numbers) -> Figure:
    note = (
        "Every arrow was found in a running net by cutting it at all states; the cells are its numbers, grey below 0."
    )
    figure = style.page(TITLE, note, height=6.75)
    axes = style.stage(figure)
    for left, (depth, found) in zip((0.75, 5.65), numbers.items(), strict=True):
        says = "a single-layer RNN" if depth == "1" else f"a multi-layer RNN of depth {depth}"
        style.write(axes, left - 0.45, 5.5, says, ha="left", va="baseline", size=13, weight="bold")
        grid(axes, left, found)
    return figure


def grid(axes: Axes, left: float, found: Numbers) -> None:
    depth = len(found["states"])
    rows = {"x": 0, "y": depth + 1} | {f"ahead.{i}": i + 1 for i in range(depth)}
    for name, place, name_to, place_to in found["wires"]:
        start, end = (left + 1.02 * place, FLOOR + STOREY * rows[name]), (left + 1.02 * place_to, rows[name_to])
        over = FLOOR + STOREY * end[1] - (0.28 if name_to == "y" else 0)
        if place == place_to:
            style.arrow(axes, (start[0], start[1] + 0.38), (end[0], over - (0.38 if name_to != "y" else 0.16)))
        else:
            style.arrow(axes, (start[0] + 0.22, start[1]), (end[0] - 0.22, over))
    for i in range(STEPS):
        x = left + 1.02 * i
        column(axes, x, FLOOR, found["x"][i], tint=style.KEY, limit=2.0)
        style.write(axes, x, FLOOR - 0.45, f"$x_{i + 1}$", size=15)
        style.write(axes, x, FLOOR + STOREY * (depth + 1) - 0.28, f"$y_{i + 1}$", size=15)
        for row, states in enumerate(found["states"]):
            column(axes, x, FLOOR + STOREY * (row + 1), states[i])
    for row in range(depth):
        y = FLOOR + STOREY * (row + 1)
        mark = f"^{{({row + 1})}}" if depth > 1 else ""
        style.write(
            axes, left + 1.02 * (STEPS - 1) + 0.3, y + 0.02, f"$W{mark}$", size=14, ha="left", color=style.WEIGHT
        )
        style.write(
            axes, left + 1.02 * (STEPS - 1) + 0.1, y - STOREY / 2, f"$U{mark}$", size=14, ha="left", color=style.WEIGHT
        )


def expected(depth: int) -> list[list[object]]:
    """The wires by the definition."""
    names = ["x", *[f"ahead.{i}" for i in range(depth)], "y"]
    up = [[names[i], k, names[i + 1], k] for i in range(depth + 1) for k in range(STEPS)]
    return sorted(up + [[f"ahead.{i}", k, f"ahead.{i}", k + 1] for i in range(depth) for k in range(STEPS - 1)])


def checks(numbers: Numbers) -> list[Check]:
    checks = []
    for depth in DEPTHS:
        found = numbers[str(depth)]
        wires = found["wires"]
        checks += [
            equal(f"depth {depth}: arrows found", len(wires), STEPS * (depth + 1) + depth * (STEPS - 1)),
            equal(f"depth {depth}: they are those of the definition", wires == expected(depth), True),
            below(f"depth {depth}: PyTorch's own layers, largest difference", found["torch"], 1e-12),
        ]
    return checks
