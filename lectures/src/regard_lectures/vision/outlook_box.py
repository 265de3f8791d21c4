"""5.9: outlook attention (Yuan et al., 2021, figure 2): one token tells how its nine neighbours look at each other.

The library's layer with random weights on a grid of 5 x 5: the middle token is mapped to 81 numbers, which become a
table of 9 x 9 whose rows sum to 1; nothing is compared. The table mixes the values of the window, and what all windows
bring to a place is added up.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.mixers.outlook import Outlook
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, close, equal, plain, seeded
from regard_lectures.products import matrix, sign, step

TITLE = "One token tells how nine look"
DECKS = ("004",)
CLAIM = "Outlook attention compares nothing: a linear map of the middle token is the attention of its neighbours."
EXPECTED = (
    "The weights of a window are one linear map of its middle token; a map of zeros gives nine times a box filter "
    "applied twice."
)
FOUND = (
    "The weights agree with the map to within 1e-16, all windows added up with the layer to within 9e-16, and zeros "
    "with the box filters to within 3e-16."
)
COST = 0.3
SEED = 5

SIDE, WIDTH, WINDOW, AT = 5, 6, 3, (2, 2)


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        layer = Outlook(WIDTH, 1).double().eval()
        layer.scores.weight.mul_(6)  # so that each has made up its mind
        x = torch.randn(1, SIDE, SIDE, WIDTH, dtype=torch.float64)
        with capture(layer, "*") as seen:
            layer(x)
        local, values, mixed = (seen[name][0][0, 0] for name in ("local", "values", "mixed"))
        middle = AT[0] * SIDE + AT[1]
        scores = layer.scores(x[0, AT[0], AT[1]]).view(WINDOW**2, WINDOW**2)
        weights = (scores / WIDTH**0.5).softmax(-1)
        near = [(AT[0] + i) * SIDE + AT[1] + j for i in (-1, 0, 1) for j in (-1, 0, 1)]
        brought = weights @ values[near]
        layer.scores.weight.zero_()
        layer.scores.bias.zero_()
        even = layer(x)
        box = boxed(boxed(layer.v(x).movedim(-1, 1))).movedim(1, -1)
        uniform = layer.out(box * WINDOW**2)
    return {
        "token": plain(x[0, AT[0], AT[1]], 3),
        "scores": plain(scores, 3),
        "weights": plain(local[middle], 3),
        "values": plain(values[near], 3),
        "brought": plain(brought, 3),
        "by hand": float((local[middle] - weights).abs().max()),
        "summed": float((by_windows(local, values) - mixed).abs().max()),
        "even": float((even - uniform).abs().max()),
    }


def boxed(x: Tensor) -> Tensor:
    """The mean of 3 x 3, zeros beyond the edge."""
    return F.avg_pool2d(x, WINDOW, 1, WINDOW // 2)


def by_windows(local: Tensor, values: Tensor) -> Tensor:
    """One window after the other, each adding to its places.  (n, 9, 9), (n, e) -> (n, e)"""
    found = torch.zeros_like(values)
    for c in range(SIDE**2):
        row, column = divmod(c, SIDE)
        for i in range(WINDOW**2):
            for j in range(WINDOW**2):
                here, there = ((row + k // WINDOW - 1, column + k % WINDOW - 1) for k in (i, j))
                if all(0 <= z < SIDE for z in (*here, *there)):
                    found[here[0] * SIDE + here[1]] += local[c, i, j] * values[there[0] * SIDE + there[1]]
    return found


def draw(numbers: Numbers) -> Figure:
    note = (
        "A grid of 5 x 5 tokens. The one in the middle (vermilion) is mapped to 81 numbers: row $i$ of the table "
        "$A$ tells how place $i$ of\nthe window looks at all nine. The window’s values $V$ are mixed by it, and "
        "added up where windows overlap."
    )
    figure = style.page(TITLE, note, height=5.0)
    axes = style.stage(figure)
    y = 2.0
    grid(axes, 0.35, y, AT)
    x = step(axes, 1.75, y, "its numbers", room=0.95)
    end = matrix(axes, x, y, [[value] for value in numbers["token"]], "$x_c$", style.QUERY)
    x = step(axes, end, y, "$W_A$, softmax", room=1.15)
    end = matrix(axes, x, y, numbers["weights"], "$A$", style.WEIGHT, limit=1)
    x = sign(axes, end, y, "×", room=0.34)
    end = matrix(axes, x, y, numbers["values"], "$V$", style.EDGE, cell=0.21)
    x = sign(axes, end, y, "=", room=0.34)
    end = matrix(axes, x, y, numbers["brought"], "$Y$", style.EDGE, cell=0.21)
    style.arrow(axes, (end + 0.08, y), (end + 0.4, y))
    style.write(axes, end - 0.62, y - 1.4, "added to nine places", size=9.5, color=style.SOFT)
    return figure


def grid(axes: Axes, x: float, y: float, at: tuple[int, int]) -> None:
    cell = 0.27
    top = y + cell * SIDE / 2
    for i in range(SIDE):
        for j in range(SIDE):
            near = abs(i - at[0]) <= 1 and abs(j - at[1]) <= 1
            tint = style.QUERY if (i, j) == at else style.mix(style.KEY, 0.3) if near else style.SUNK
            style.block(axes, x + j * cell + 0.01, top - (i + 1) * cell + 0.01, cell - 0.02, cell - 0.02, tint)
    style.frame(axes, x + cell, top - 4 * cell, 3 * cell, 3 * cell, style.KEY)
    style.write(axes, x + SIDE * cell / 2, top + 0.2, "tokens", size=12)


def checks(numbers: Numbers) -> list[Check]:
    rows = [sum(row) for row in numbers["weights"]]
    return [
        below("weights against the softmax of one linear map of the middle token", numbers["by hand"], 1e-12),
        close("rows of the table: sum, the farthest from 1", max(rows, key=lambda total: abs(total - 1)), 1.0, 0.003),
        equal("the table's shape", f"{len(rows)} x {len(numbers['weights'][0])}", "9 x 9"),
        below("all windows added up one by one against the layer", numbers["summed"], 1e-12),
        below("weights of zeros: against nine times a box filter applied twice", numbers["even"], 1e-12),
    ]
