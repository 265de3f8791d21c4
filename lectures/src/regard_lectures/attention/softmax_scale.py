"""2.2: deck 003's side note. Softmax is not scale invariant: twice the scores give another, harder distribution.

It is invariant to shifts, and the ratio of two weights depends on the difference of their scores alone.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.mask import masked_softmax
from regard_lectures.figure import Check, Numbers, above, below, close, plain

TITLE = "Softmax is not scale invariant"
DECKS = ("003", "000")
CLAIM = (
    "Doubling the scores (1, 2, 3) raises the largest weight from 0.665 to 0.867; adding a constant changes nothing."
)
EXPECTED = (
    "Doubling the scores (1, 2, 3) raises the largest weight from 0.665 to 0.867; softmax is invariant to shifts, and"
    " rows of its Jacobian add up to 0."
)
FOUND = "0.6652 becomes 0.8668; shifts, the Jacobian and the ratio rule hold to 1e-15."
COST = 0.1
SEED = 0

SCORES = [1.0, 2.0, 3.0]


def softmax(scores: Tensor) -> Tensor:
    """The library's own, with nothing masked."""
    return masked_softmax(scores, None)


def compute() -> Numbers:
    x = torch.tensor(SCORES, dtype=torch.float64)
    once, twice = softmax(x), softmax(2 * x)
    slopes = torch.autograd.functional.jacobian(softmax, x)
    ratios = once[:, None] / once - (x[:, None] - x).exp()
    return {
        "x": SCORES,
        "softmax(x)": plain(once, 8),
        "softmax(2x)": plain(twice, 8),
        "shift": float((softmax(x + 100) - once).abs().max()),
        "rows": float(slopes.sum(-1).abs().max()),
        "jacobian": float((slopes - once.diag() + once.outer(once)).abs().max()),
        "ratio": float(ratios.abs().max()),
        "hot": float(softmax(100 * x).max()),
        "cold": float((softmax(1e-4 * x) - 1 / 3).abs().max()),
    }


def draw(numbers: Numbers) -> Figure:
    figure = style.page(TITLE, "Twice the scores: the same order, but the winner takes more.", height=5.4)
    raw, soft = figure.subplots(2, 2)
    labels = [f"$x_{i}$" for i in (1, 2, 3)]
    for axes, factor in zip(raw, (1, 2), strict=True):
        tint = style.EDGE if factor == 1 else style.mix(style.SECOND, 0.55)
        style.bars(axes, labels, [factor * x for x in numbers["x"]], color=tint, form="{:g}".format, top=7.2)
        axes.set_title("$x$" if factor == 1 else "$2x$", size=17)
    for axes, factor in zip(soft, (1, 2), strict=True):
        name = "softmax(x)" if factor == 1 else "softmax(2x)"
        style.bars(axes, labels, numbers[name], color=style.WEIGHT if factor == 1 else style.SECOND, top=1.02)
        axes.set_title("softmax($x$)" if factor == 1 else "softmax($2x$)", size=15)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    once, twice = numbers["softmax(x)"][2], numbers["softmax(2x)"][2]
    return [
        close("largest weight of softmax(x)", once, 0.665, 0.0005),
        close("largest weight of softmax(2x)", twice, 0.867, 0.0005),
        above("what doubling adds to the largest weight", twice - once, 0),
        below("shift invariance: softmax(x + 100) - softmax(x)", numbers["shift"], 1e-12),
        below("rows of the Jacobian add up to zero", numbers["rows"], 1e-12),
        below("the Jacobian is diag(p) - p p^T", numbers["jacobian"], 1e-12),
        below("ratio rule: p_i / p_j - exp(x_i - x_j)", numbers["ratio"], 1e-12),
        above("softmax(100 x) is one-hot: largest weight", numbers["hot"], 0.999),
        below("softmax(x / 10000) is uniform: farthest from 1/3", numbers["cold"], 0.001),
    ]
