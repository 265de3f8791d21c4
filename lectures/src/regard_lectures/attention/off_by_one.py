"""2.7b: all values above the diagonal are zero, and a test that notices when they are not.

A map is easy to get right by accident in a picture; what counts is that no output depends on a later input. The
Jacobian shows it: with the right mask its blocks above the diagonal are exactly zero, with a mask that is off by one
(each query sees one key too many) they are not.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.mask import CAUSAL, Mask
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded

TITLE = "Nothing above the diagonal"
DECKS = ("003", "004")
CLAIM = "With the look-ahead mask all weights above the diagonal are zero; a mask off by one is caught by the Jacobian."
EXPECTED = "All weights above the diagonal are zero, and a mask that is off by one is caught by the Jacobian."
FOUND = "Weights and slopes above the diagonal are 0 exactly; off by one, the largest slope is 1.1, and it is caught."
COST = 0.1
SEED = 2

LENGTH, WIDTH = 10, 16
MASKS = {"right": CAUSAL, "off by one": Mask(causal=True, start=1)}


def compute() -> Numbers:
    numbers: Numbers = {}
    with seeded(SEED):
        layer = MultiHeadAttention(WIDTH, 2).double()
        with torch.no_grad():
            layer.q.weight.mul_(3)  # so that there is something to see in the map
        x = torch.randn(1, LENGTH, WIDTH, dtype=torch.float64)
    for name, mask in MASKS.items():
        with torch.no_grad(), capture(layer, "weights") as seen:
            layer(x, mask=mask)
        weights, slopes = seen["weights"][0][0].mean(0), dependence(layer, x, mask)
        numbers[name] = {
            "weights": plain(weights, 3),
            "slopes": plain(slopes / slopes.max(), 3),
            "future weight": float(weights.triu(1).max()),
            "future slope": float(slopes.triu(1).max()),
            "caught": not lawful(slopes),
        }
    return numbers


def dependence(layer: MultiHeadAttention, x: Tensor, mask: Mask) -> Tensor:
    """|d y_i / d x_j| for every pair, (n, n)."""
    slopes = torch.autograd.functional.jacobian(lambda inputs: layer(inputs, mask=mask)[0], x)[:, :, 0]
    return slopes.norm(dim=(1, 3))


def lawful(slopes: Tensor) -> bool:
    """The Jacobian test: no output depends on a later input."""
    return bool((slopes.triu(1) == 0).all())


def draw(numbers: Numbers) -> Figure:
    note = "Left, the weights; then how outputs (rows) depend on inputs (columns), with the right mask and a wrong one."
    figure = style.page(TITLE, note, height=5.3)
    panels = figure.subplots(1, 3)
    style.heatmap(panels[0], numbers["right"]["weights"])
    panels[0].set_title("attention weights")
    for axes, name in ((panels[1], "right"), (panels[2], "off by one")):
        style.heatmap(axes, numbers[name]["slopes"])
        axes.set_title("Jacobian, right mask" if name == "right" else "Jacobian, mask off by one: caught")
    for i in range(LENGTH - 1):
        style.frame(panels[2], i + 1, i, 1, 1, style.SECOND)
    for axes in panels:
        axes.plot([0, LENGTH], [0, LENGTH], color=style.EDGE, lw=0.8)
    style.scale(figure, list(panels), label="weight, and Jacobian as a share of its largest block")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    right, wrong = numbers["right"], numbers["off by one"]
    return [
        below("right mask: largest weight above the diagonal", right["future weight"], 1e-300),
        below("right mask: largest Jacobian block above the diagonal", right["future slope"], 1e-300),
        equal("right mask: passes the Jacobian test", right["caught"], False),
        above("mask off by one: largest Jacobian block above the diagonal", wrong["future slope"], 0.01),
        equal("mask off by one: caught by the Jacobian test", wrong["caught"], True),
    ]
