"""1.5: the GRU cell in its two variants, with the values of its gates in a real cell.

Cho et al. (2014), https://arxiv.org/abs/1406.1078, reset the state before the matrix U_n; PyTorch and cuDNN reset what
U_n made of it. The two cells drawn have the same weights and are given the same numbers.
"""

from typing import Literal

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import GRUCell
from regard.nn.tap import capture, listen
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded, within
from regard_lectures.recurrent.drawing import LIT, NUMBERED, column, sign_at

TITLE = "The gated recurrent unit, and its two variants"
DECKS = ("004", "002")
CLAIM = (
    "An update gate of 1 copies the state, a reset gate of 0 forgets it; where the reset stands makes two functions."
)
EXPECTED = (
    "An update gate of 1 copies the state and a reset gate of 0 forgets it, in both variants; where the reset stands"
    " makes two functions, of which PyTorch’s is one."
)
FOUND = (
    "Copying and forgetting are exact (0.0) in both variants; at random weights their states differ by 0.044 on"
    " average; PyTorch’s cell agrees to 1e-16."
)
COST = 0.6
SEED = 15

SIZE, WIDE, CELLS = 4, 32, 200
RESETS: tuple[Literal["before", "after"], ...] = ("before", "after")


def compute() -> Numbers:
    numbers: Numbers = {}
    with seeded(SEED):
        cells = {reset: GRUCell(SIZE, SIZE, reset=reset).double() for reset in RESETS}
        for weight in cells["after"].parameters():
            nn.init.normal_(weight)
        cells["before"].load_state_dict(cells["after"].state_dict())
        x, h = torch.randn(2, 1, SIZE, dtype=torch.float64)
        for reset, cell in cells.items():
            with capture(cell, "*") as seen, torch.no_grad():
                cell(x, {"h": h.tanh()})
            numbers[reset] = {name: plain(seen[name][0][0], 3) for name in "rznh"}
            numbers[reset] |= limits(cell)
        numbers |= {"x": plain(x[0], 3), "before it": plain(h.tanh()[0], 3)}
        numbers["apart"] = {str(scale): apart(scale) for scale in (1, 3)}
        numbers["torch"] = theirs(cells["after"], x, h)
    return numbers


@torch.no_grad()
def limits(cell: GRUCell) -> Numbers:
    """With gates held open or shut: how far a copy is from the state, and how much a forgotten state still matters."""
    x, h, other = torch.randn(3, 64, SIZE, dtype=torch.float64)
    with listen(cell, "z", lambda _, z: torch.ones_like(z)):
        copied = float((cell(x, {"h": h})["h"] - h).abs().max())
    kept = candidate(cell, x, h) - candidate(cell, x, other)
    with listen(cell, "r", lambda _, r: torch.zeros_like(r)):
        lost = candidate(cell, x, h) - candidate(cell, x, other)
    return {"copied": copied, "remembered": float(kept.abs().max()), "forgotten": float(lost.abs().max())}


def candidate(cell: GRUCell, x: Tensor, h: Tensor) -> Tensor:
    with capture(cell, "n") as seen:
        cell(x, {"h": h})
    return seen["n"][0]


@torch.no_grad()
def apart(scale: float) -> float:
    """How far the variants' new states are apart on average, with PyTorch's first weights times ``scale``."""
    differences = []
    for _ in range(CELLS):
        one, two = (GRUCell(WIDE, WIDE, reset=reset).double() for reset in RESETS)
        for weight in one.parameters():
            weight.mul_(scale)
        two.load_state_dict(one.state_dict())
        x, h = torch.randn(2, 8, WIDE, dtype=torch.float64)
        differences.append((one(x, {"h": h})["h"] - two(x, {"h": h})["h"]).abs().mean())
    return float(f"{float(torch.stack(differences).mean()):.3g}")


@torch.no_grad()
def theirs(cell: GRUCell, x: Tensor, h: Tensor) -> float:
    other = nn.GRUCell(SIZE, SIZE).double()
    for ours, name in ((cell.input, "ih"), (cell.recurrent, "hh")):
        getattr(other, f"weight_{name}").copy_(ours.weight)
        getattr(other, f"bias_{name}").copy_(ours.bias)
    return float((other(x, h) - cell(x, {"h": h})["h"]).abs().max())


MAIN, MIDDLE, LOW, HIGH = 4.05, 2.85, 1.9, 4.95  # the heights of the state, the candidate, r and z


def draw(numbers: Numbers) -> Figure:
    note = (
        "The same weights and inputs in both. Cells: live numbers, grey below 0. $r$ and $z$ are made of $x$ and $h$."
    )
    figure = style.page(TITLE, note, height=7.2)
    axes = style.stage(figure)
    titles = {"before": "Cho et al. (2014): reset, then $U$", "after": "PyTorch, cuDNN: $U$, then reset"}
    for left, reset in zip((0.3, 5.25), RESETS, strict=True):
        style.write(axes, left, 5.72, titles[reset], ha="left", va="baseline", size=13, weight="bold")
        cell(axes, left, numbers, reset)
    first, third = (numbers["apart"][scale] for scale in ("1", "3"))
    says = [
        f"With random weights their states differ by {first:.2g} on average; with threefold ones by {third:.2g}.",
        "In both, $z = 1$ copies $h$ exactly, and with $r = 0$ the candidate $n$ knows nothing of $h$.",
    ]
    for i, text in enumerate(says):
        style.write(axes, 0.3, 0.37 - 0.25 * i, text, ha="left", va="baseline", size=11, color=style.SOFT)
    return figure


def cell(axes: Axes, left: float, numbers: Numbers, reset: str) -> None:
    values = numbers[reset]
    style.box(axes, left + 0.52, 1.45, 3.53, 3.98, fill=style.SUNK, edge=style.LINE, corner=0.12)
    ends = ((0.22, "before it", "$h$"), (4.38, "h", "$h\\prime$"))
    for place, name, text in ends:
        column(axes, left + place, MAIN, (numbers if place < 1 else values)[name], **NUMBERED)
        style.write(axes, left + place, MAIN + 0.52, text, size=15)
    points = {"z": (left + 2.05, MAIN), "sum": (left + 3.4, MAIN), "new": (left + 3.4, 3.42)}
    style.arrow(axes, (left + 0.45, MAIN), (points["z"][0] - 0.11, MAIN))
    style.arrow(axes, (points["z"][0] + 0.11, MAIN), (points["sum"][0] - 0.11, MAIN))
    style.arrow(axes, (points["sum"][0] + 0.11, MAIN), (left + 4.12, MAIN))
    style.arrow(axes, (points["new"][0], points["new"][1] + 0.11), (points["sum"][0], MAIN - 0.11))
    gate(axes, left + 2.05, HIGH, "$z = \\sigma(\\cdot)$", values["z"], -0.78)
    style.arrow(axes, (left + 2.05, HIGH - 0.2), (left + 2.05, MAIN + 0.11))
    bend = [
        (left + 2.55, HIGH),
        (left + 3.8, HIGH),
        (left + 3.8, points["new"][1]),
        (points["new"][0] + 0.11, points["new"][1]),
    ]
    style.route(axes, bend)
    style.write(axes, left + 3.2, HIGH + 0.16, "$1 - z$", size=13)
    candidate_path(axes, left, numbers, reset)
    for name, sign in (("z", "×"), ("sum", "+"), ("new", "×")):
        sign_at(axes, *points[name], sign)


def candidate_path(axes: Axes, left: float, numbers: Numbers, reset: str) -> None:
    """From the state to the candidate n: the two variants differ in the order of two things."""
    places = {"before": (1.35, 2.05), "after": (2.05, 1.35)}[reset]  # of the reset and of the matrix
    style.route(axes, [(left + 0.78, MAIN), (left + 0.78, MIDDLE), (left + 1.35 - 0.16, MIDDLE)])
    style.arrow(axes, (left + 1.35 + 0.16, MIDDLE), (left + 2.05 - 0.17, MIDDLE))
    style.arrow(axes, (left + 2.05 + 0.16, MIDDLE), (left + 2.55, MIDDLE))
    sign_at(axes, left + places[0], MIDDLE, "×", lit=True)
    style.box(axes, left + places[1] - 0.17, MIDDLE - 0.17, 0.34, 0.34, "$U$", size=13, **LIT)
    gate(axes, left + places[0], LOW, "$r = \\sigma(\\cdot)$", numbers[reset]["r"], 0.78 if places[0] < 2 else -0.78)
    style.arrow(axes, (left + places[0], LOW + 0.2), (left + places[0], MIDDLE - 0.11))
    style.box(axes, left + 2.55, MIDDLE - 0.2, 0.62, 0.4, "tanh", edge=style.SOFT)
    column(axes, left + 3.7, MIDDLE - 0.3, numbers[reset]["n"], **NUMBERED)
    style.write(axes, left + 3.7, MIDDLE - 0.8, "$n$", size=15)
    style.route(axes, [(left + 3.17, MIDDLE), (left + 3.4, MIDDLE), (left + 3.4, 3.31)])
    column(axes, left + 2.86, 1.0, numbers["x"], tint=style.KEY, limit=2.0, **NUMBERED)
    style.write(axes, left + 2.52, 1.0, "$x$", size=15)
    style.arrow(axes, (left + 2.86, 1.42), (left + 2.86, MIDDLE - 0.2))
    style.write(axes, left + 3.05, 2.2, "$W$", size=13)


def gate(axes: Axes, x: float, y: float, text: str, values: list[float], aside: float) -> None:
    style.box(axes, x - 0.5, y - 0.2, 1.0, 0.4, text, size=13, edge=style.SOFT, fill="white")
    column(axes, x + aside, y, values, **NUMBERED)


def checks(numbers: Numbers) -> list[Check]:
    checks = []
    for reset in RESETS:
        found = numbers[reset]
        checks += [
            equal(f"reset {reset}: z = 1 copies the state, largest difference", found["copied"], 0.0),
            equal(f"reset {reset}: r = 0 forgets it, how much n knows of h", found["forgotten"], 0.0),
            above(f"reset {reset}: how much n knows of h otherwise", found["remembered"], 0.1),
        ]
    return [
        *checks,
        within("the variants' states at random weights: mean difference", numbers["apart"]["1"], 0.01, 1.0),
        below("reset after: PyTorch's cell with these weights, largest difference", numbers["torch"], 1e-12),
    ]
