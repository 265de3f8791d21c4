"""2.6: deck 004's three wirings of one mechanism. Keys and values come from x, queries from z: self-attention has
z = x; masked self-attention hides the future as well; cross-attention takes z from the decoder and x from the encoder.

The three maps are of one and the same layer.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "Self-, masked and cross-attention"
DECKS = ("004", "001", "002", "003")
CLAIM = "One mechanism, three wirings: masked attention never sees the future; with z = x, cross- is self-attention."
EXPECTED = "A masked output does not depend on later inputs, and cross-attention with z = x is self-attention."
FOUND = "Slopes by later inputs are 0 exactly, and so is the difference of cross- and self-attention."
COST = 0.1
SEED = 7

SOURCE, TARGET, WIDTH = 5, 3, 16


def compute() -> Numbers:
    with seeded(SEED):
        layer = MultiHeadAttention(WIDTH, 1).double()
        with torch.no_grad():
            layer.q.weight.mul_(4)  # so that there is something to see in the maps
        x, z = torch.randn(1, SOURCE, WIDTH, dtype=torch.float64), torch.randn(1, TARGET, WIDTH, dtype=torch.float64)
        slopes = torch.autograd.functional.jacobian(lambda y: layer(y, mask=CAUSAL)[0], x)[:, :, 0]  # (n, d, n, d)
        later = slopes.norm(dim=(1, 3)).triu(1)
        moved = x.clone()
        moved[:, -1] += 10.0  # a changed last token
        return {
            "self": plain(look(layer, x, None, ALL), 3),
            "masked": plain(look(layer, x, None, CAUSAL), 3),
            "cross": plain(look(layer, z, x, ALL), 3),
            "same": float((layer(x, x) - layer(x)).abs().max().detach()),
            "later": float(later.max()),
            "changed": float((layer(moved, mask=CAUSAL) - layer(x, mask=CAUSAL))[:, :-1].abs().max().detach()),
        }


@torch.no_grad()
def look(layer: MultiHeadAttention, x: Tensor, context: Tensor | None, mask: Mask) -> Tensor:
    with capture(layer, "weights") as seen:
        layer(x, context, mask=mask)
    return seen["weights"][0][0, 0]


def draw(numbers: Numbers) -> Figure:
    note = "Keys and values are made of $x$, queries of $z$. Below, the map of the same layer in each wiring."
    figure = style.page(TITLE, note, height=6.4)
    axes = style.stage(figure)
    kinds = [("self-attention", "self", "$z = x$"), ("masked self-attention", "masked", "$z = x$, no future")]
    kinds.append(("cross-attention", "cross", "$z$ decoder, $x$ encoder"))
    for i, (title, name, inputs) in enumerate(kinds):
        left = 0.35 + 3.2 * i
        style.write(axes, left, 5.05, title, ha="left", size=13, weight="bold")
        style.write(axes, left, 4.78, inputs, ha="left", size=12, color=style.SOFT)
        plan(axes, left, name)
        table = numbers[name]
        style.cells(axes, left + 0.55, 1.85, table, 0.29, limit=1)
        for row in range(len(table)):
            style.write(axes, left + 0.33, 1.71 - 0.29 * row, f"$q_{row + 1}$", size=12, color=style.QUERY)
        for column in range(len(table[0])):
            style.write(axes, left + 0.7 + 0.29 * column, 2.02, f"$k_{column + 1}$", size=12, color=style.KEY)
    return figure


def plan(axes: Axes, left: float, name: str) -> None:
    """Inputs below, the mechanism in the middle, the output above."""
    style.box(
        axes,
        left + 0.25,
        3.55,
        2.3,
        0.44,
        "attention" if name != "masked" else "attention + mask",
        edge=style.WEIGHT,
        fill=style.WEIGHT_WASH,
    )
    style.arrow(axes, (left + 1.4, 4.0), (left + 1.4, 4.38))
    style.write(axes, left + 1.55, 4.28, "$y$", size=15, ha="left")
    for x, text, tint in ((0.55, "$q$", style.QUERY), (1.4, "$k$", style.KEY), (2.25, "$v$", style.INK)):
        style.arrow(axes, (left + x, 2.98), (left + x, 3.53), color=tint)
        style.write(axes, left + x + 0.14, 3.24, text, size=14, color=tint)
    if name == "cross":
        style.box(axes, left + 0.3, 2.62, 0.5, 0.36, "$z$", size=14, edge=style.QUERY, fill=style.QUERY_WASH)
        style.box(axes, left + 1.15, 2.62, 1.35, 0.36, "$x$", size=14, edge=style.KEY, fill=style.KEY_WASH)
    else:
        style.box(axes, left + 0.3, 2.62, 2.2, 0.36, "$x = z$", size=14, fill=style.SUNK)


def checks(numbers: Numbers) -> list[Check]:
    cross = numbers["cross"]
    return [
        below("masked: largest slope of an output by a later input", numbers["later"], 1e-15),
        below("masked: what a changed last token changes before it", numbers["changed"], 1e-15),
        below("cross-attention with z = x is self-attention", numbers["same"], 1e-10),
        equal("the cross map is M x N", f"{len(cross)} x {len(cross[0])}", f"{TARGET} x {SOURCE}"),
    ]
