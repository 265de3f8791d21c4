"""1.4: the RNN folded and unrolled, with U, V and W (rnn2 of deck 001, att_RNN0 of deck 004).

The numbers in the boxes are those of a real net of the library over four real inputs. U, V, W are the deck's letters:
h_k = tanh(U x_k + W h_(k-1) + b), y_k = V h_k; our cell holds two biases that add up to b.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import Recurrent, RNNCell
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded
from regard_lectures.recurrent.drawing import column

TITLE = "A recurrent network, folded and unrolled"
DECKS = ("001", "004")
CLAIM = "Unrolled, an RNN is a deep net whose layers share U, V and W: its gradient is the sum over all of its copies."
EXPECTED = (
    "The unrolled net is PyTorch’s RNN with the same weights, and the gradient of U, V and W is the sum over all"
    " copies."
)
FOUND = "All differences to the equations, to PyTorch’s layer and to the sum of gradients are below 2e-16."
COST = 0.1
SEED = 3

INPUT, HIDDEN, OUTPUT, STEPS = 3, 4, 2, 4


def compute() -> Numbers:
    with seeded(SEED):
        net, head = Recurrent(RNNCell, INPUT, HIDDEN).double(), nn.Linear(HIDDEN, OUTPUT, bias=False).double()
        x = torch.randn(1, STEPS, INPUT, dtype=torch.float64)
    cell = net.ahead[0]
    assert isinstance(cell, RNNCell)
    h = net(x).outputs
    y = head(h)
    U, W, V, b = cell.input.weight, cell.recurrent.weight, head.weight, cell.input.bias + cell.recurrent.bias
    copies = [tuple(part.detach().clone().requires_grad_() for part in (U, W, V)) for _ in range(STEPS)]
    unrolled = by_hand(x[0], copies, b)
    shared = torch.autograd.grad(y.square().sum(), (U, W, V), retain_graph=True)
    apart = torch.autograd.grad(unrolled.square().sum(), [part for copy in copies for part in copy], allow_unused=True)
    summed = [sum(part for part in apart[i::3] if part is not None) for i in range(3)]
    long = torch.cat((x, torch.randn(1, 396, INPUT, dtype=torch.float64)), 1)
    return {
        "x": plain(x[0], 3),
        "h": plain(h[0], 3),
        "y": plain(y[0], 3),
        "shapes": {name: list(part.shape) for name, part in (("U", U), ("W", W), ("V", V))},
        "by hand": float((unrolled - y[0]).abs().max().detach()),
        "torch": theirs(cell, x, h),
        "gradient": max(float((one - two).abs().max()) for one, two in zip(shared, summed, strict=True)),
        "long": float((net(long).outputs[:, :STEPS] - h).abs().max().detach()),
    }


def by_hand(x: Tensor, copies: list[tuple[Tensor, ...]], b: Tensor) -> Tensor:
    """The equations, each step with its own copy of the weights.  (n, d) -> (n, o)"""
    h, said = torch.zeros(HIDDEN, dtype=x.dtype), []
    for step, (U, W, V) in zip(x, copies, strict=True):
        h = torch.tanh(U @ step + W @ h + b)
        said.append(V @ h)
    return torch.stack(said)


def theirs(cell: RNNCell, x: Tensor, h: Tensor) -> float:
    """How far PyTorch's own layer is, with the same weights."""
    layer = nn.RNN(INPUT, HIDDEN, batch_first=True).double()
    parts = {"weight_ih_l0": cell.input.weight, "weight_hh_l0": cell.recurrent.weight}
    parts |= {"bias_ih_l0": cell.input.bias, "bias_hh_l0": cell.recurrent.bias}
    layer.load_state_dict(parts)
    return float((layer(x)[0] - h).abs().max().detach())


LOW, MIDDLE, HIGH = 0.95, 2.35, 3.75


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, as it is written; right, as it runs, with the same matrices at every step. Live numbers, grey below 0."
    )
    figure = style.page(TITLE, note, height=5.35)
    axes = style.stage(figure)
    folded(axes, 1.15, numbers)
    places = [4.25 + 1.5 * i for i in range(STEPS)]
    for i, x in enumerate(places):
        for y, name, tint in ((LOW, "x", style.KEY), (MIDDLE, "h", style.WEIGHT), (HIGH, "y", style.WEIGHT)):
            column(axes, x, y, numbers[name][i], tint=tint, limit=2.0 if name == "x" else 1.0)
            up = 0.25 if name == "h" else -0.02
            style.write(axes, x + 0.27, y + up, f"${name}_{i + 1}$", size=15, ha="left")
        step(axes, x)
        if i:
            style.arrow(axes, (places[i - 1] + 0.24, MIDDLE), (x - 0.24, MIDDLE), color=style.INK)
            style.write(axes, x - 0.66, MIDDLE - 0.18, "$W$", size=14)
    style.arrow(axes, (places[-1] + 0.24, MIDDLE), (places[-1] + 0.95, MIDDLE), color=style.EDGE)
    style.arrow(axes, (places[0] - 0.8, MIDDLE), (places[0] - 0.24, MIDDLE), color=style.EDGE)
    style.write(axes, places[0] - 0.55, MIDDLE - 0.18, "$W$", size=14, color=style.EDGE)
    style.write(axes, places[0] - 0.9, MIDDLE, "$0$", size=14, color=style.EDGE)
    style.write(axes, 2.62, MIDDLE, "=", size=26, family=style.SERIF, color=style.SOFT)
    return figure


def step(axes: Axes, x: float) -> None:
    """From input to state to output."""
    for start, end, text in ((LOW + 0.32, MIDDLE - 0.42, "$U$"), (MIDDLE + 0.42, HIGH - 0.25, "$V$")):
        style.arrow(axes, (x, start), (x, end), color=style.INK)
        style.write(axes, x + 0.17, (start + end) / 2, text, size=14)


def folded(axes: Axes, x: float, numbers: Numbers) -> None:
    boxes = ((LOW, "$x_k$", style.KEY, style.KEY_WASH), (HIGH, "$y_k$", style.EDGE, "white"))
    for y, text, edge, fill in boxes:
        style.box(axes, x - 0.32, y - 0.22, 0.64, 0.44, text, size=16, edge=edge, fill=fill)
    style.box(axes, x - 0.36, MIDDLE - 0.26, 0.72, 0.52, "$h_k$", size=17, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    for start, end, text in ((LOW + 0.24, MIDDLE - 0.28, "$U$"), (MIDDLE + 0.28, HIGH - 0.24, "$V$")):
        style.arrow(axes, (x, start), (x, end), color=style.INK)
        style.write(axes, x - 0.2, (start + end) / 2, text, size=15)
    loop = [(x + 0.36, MIDDLE + 0.12), (x + 0.85, MIDDLE + 0.12), (x + 0.85, MIDDLE - 0.55), (x + 0.2, MIDDLE - 0.55)]
    style.route(axes, [*loop, (x + 0.2, MIDDLE - 0.28)], color=style.INK, corner=0.12)
    style.write(axes, x + 1.03, MIDDLE - 0.22, "$W$", size=15)
    shapes = numbers["shapes"]
    text = "   ".join(f"${name}$ {rows} × {columns}" for name, (rows, columns) in shapes.items())
    style.write(axes, 0.3, 0.3, text, ha="left", size=10.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    shapes = numbers["shapes"]
    return [
        equal("U is H x D, W is H x H, V is O x H", str(list(shapes.values())), "[[4, 3], [4, 4], [2, 4]]"),
        below("the equations step by step, largest difference", numbers["by hand"], 1e-12),
        below("PyTorch's own layer with these weights, largest difference", numbers["torch"], 1e-12),
        below("gradient of U, V, W against the sum over the copies of all steps", numbers["gradient"], 1e-12),
        below("the first steps of 400 against the same steps alone", numbers["long"], 1e-12),
    ]
