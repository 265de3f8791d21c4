"""1.8: how large a gradient is k steps back (deck 004's derivation, deck 002's remark on gradient stability).

A loss at the last of 120 steps, its slope by the state k steps before, in the library's own cells. The linear net's W
is rho times an orthogonal matrix, so that its gradient is exactly rho^k: the slide's scalar argument about w > 1 or
< 1, made one about singular values. The others have PyTorch's first weights; an LSTM's state is what it keeps, c.
"""

import math
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import GRUCell, Kind, LSTMCell, Recurrent, RNNCell
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, close, in_starts, seeded

TITLE = "Vanishing and exploding gradients"
DECKS = ("004", "002")
CLAIM = "A linear RNN's gradient changes by the factor rho at every step; gates make it last, an LSTM's the longest."
EXPECTED = (
    "In a linear RNN the gradient has the slope log rho by the steps back; of the others the LSTM’s is the flattest."
)
FOUND = (
    "The slopes are log 0.8, 0 and log 1.2 to 1e-9; an LSTM has the flattest gradient in all of 3 starts, then the"
    " GRU, then tanh."
)
COST = 1.0
SEED = 0

STEPS, BACK, SIZE, ROWS, SEEDS = 120, 100, 64, 8, 3
RHO = {"shrinking": 0.8, "steady": 1.0, "growing": 1.2}  # linear nets
GATED: dict[str, Kind] = {
    "tanh": RNNCell,
    "GRU": GRUCell,
    "LSTM, forget bias 1": partial(LSTMCell, forget=1.0),
    "LSTM, forget bias 3": partial(LSTMCell, forget=3.0),
}
LABELS = {  # at which k the name of a curve stands, and how much above it
    "shrinking": (100, 8),
    "steady": (100, 8),
    "growing": (100, 9),
    "tanh": (36, 7),
    "GRU": (56, 7),
    "LSTM, forget bias 1": (100, -8),
    "LSTM, forget bias 3": (100, -6),
}


def norms(net: Recurrent) -> Tensor:
    """The mean log norm of the gradient 1 ... 100 steps back, over some random sequences.  -> (100,)"""
    kept = net.cells()[0].names[-1]  # h, or an LSTM's c
    with capture(net, f"*.{kept}", grad=True) as seen:
        outputs = net(torch.randn(ROWS, STEPS, SIZE, dtype=torch.float64)).outputs
    (states,) = seen.values()
    direction = nn.functional.normalize(torch.randn(SIZE, dtype=torch.float64), dim=0)
    slopes = torch.autograd.grad((outputs[:, -1] @ direction).sum(), states)
    return torch.stack([slope.norm(dim=-1).log().mean() for slope in reversed(slopes)])[1 : BACK + 1]


def linear(rho: float) -> Recurrent:
    net = Recurrent(partial(RNNCell, act=nn.Identity()), SIZE, SIZE).double()
    (cell,) = net.cells()
    with torch.no_grad():
        nn.init.orthogonal_(cell.recurrent.weight).mul_(rho)
    return net


def compute() -> Numbers:
    with seeded(SEED):
        curves = {name: [norms(linear(rho))] for name, rho in RHO.items()}
        for name, kind in GATED.items():
            curves[name] = [norms(Recurrent(kind, SIZE, SIZE).double()) for _ in range(SEEDS)]
    return {
        "curves": {
            name: [float(f"{value:.4g}") for value in torch.stack(runs).mean(0).tolist()]
            for name, runs in curves.items()
        },
        "slopes": {name: [fitted(run) for run in runs] for name, runs in curves.items()},
        "orthogonal": float(curves["steady"][0].exp().sub(1).abs().max()),
    }


def fitted(curve: Tensor) -> float:
    """The slope of the straight line through the curve, by least squares."""
    k = torch.arange(1, len(curve) + 1, dtype=curve.dtype)
    k = k - k.mean()
    return float((k * curve).sum() / k.square().sum())


def draw(numbers: Numbers) -> Figure:
    note = f"Norm of the gradient by the state $k$ steps before the loss, width {SIZE}, before training; logarithmic."
    figure = style.page(TITLE, note, height=5.6)
    axes = figure.subplots()
    tints = {"tanh": style.INK, "GRU": style.KEY}
    for name, curve in numbers["curves"].items():
        free = name in RHO
        tint = style.EDGE if free else tints.get(name, style.WEIGHT)
        dash = "--" if free or name.endswith("3") else "-"
        shown = [value / math.log(10) for value in curve]
        axes.plot(range(1, BACK + 1), shown, color=tint, ls=dash, lw=1.8 if free else 2.2)
        k, up = LABELS[name]
        style.end_label(axes, k, shown[k - 1], f"linear, $\\rho$ = {RHO[name]:g}" if free else name, tint, dx=7, dy=up)
    axes.set(xlabel="$k$", xlim=(0, BACK * 1.28), ylim=(-14.5, 9.6), xticks=[1, 20, 40, 60, 80, 100])
    axes.set_yticks([-12, -8, -4, 0, 4, 8], [f"$10^{{{i}}}$" for i in (-12, -8, -4, 0, 4, 8)])
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    slopes = numbers["slopes"]
    tanh, gru, one, three = (slopes[name] for name in GATED)
    flattest = [min(GATED, key=lambda name: abs(slopes[name][seed])) for seed in range(SEEDS)]
    checks = [
        close(f"linear, rho = {rho:g}: slope against log rho", slopes[name][0], math.log(rho), 1e-9)
        for name, rho in RHO.items()
    ]
    return [
        *checks,
        close("linear, rho = 1: the norm stays 1, largest difference", numbers["orthogonal"], 0.0, 1e-12),
        in_starts("the flattest of the others is an LSTM", ["LSTM" in name for name in flattest]),
        aside(above("LSTM: slope with forget bias 3 over 1, seeds apart", min(three) - max(one), 0.0)),
        above("slope of the LSTM with forget bias 1 over the GRU's, seeds apart", min(one) - max(gru), 0.0),
        aside(above("slope of the GRU over that of tanh, seeds apart", min(gru) - max(tanh), 0.0)),
    ]
