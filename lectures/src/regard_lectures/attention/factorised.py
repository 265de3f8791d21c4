"""2.3: deck 004's point. Additive attention asks a little network about every pair, N x M times; a dot product needs
the networks f and g once for each vector, N + M times, and then only inner products.

The evaluations are counted while the scores are computed, one call for each little network drawn.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import Softmax
from regard.nn.kernels.additive import Additive
from regard.nn.kernels.luong import General
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "A grid of networks, or a product of two lists"
DECKS = ("004",)
CLAIM = "Additive scores of N queries and M keys evaluate a network N·M times, dot-product scores N + M times."
EXPECTED = (
    "Additive scores of N queries and M keys take N·M evaluations of a network, dot products N + M; a dot product is"
    " PyTorch’s attention with scale 1."
)
FOUND = "20 and 9 evaluations for 4 and 5 vectors; all identities hold to 1e-15."
COST = 0.1
SEED = 3

ROWS, COLUMNS, WIDTH = 4, 5, 8


class Counted(nn.Module):
    """A function that counts how often it is asked."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.inner(x)
        return y


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        states, memory = torch.randn(ROWS, WIDTH, dtype=torch.float64), torch.randn(COLUMNS, WIDTH, dtype=torch.float64)
        kernel = Additive(1, WIDTH).double()
        pair = Counted(nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, 1, bias=False))).double()
        pair.inner[1].weight.copy_(kernel.score[0].mT)  # type: ignore[index]
        additive = torch.stack([torch.cat([pair(q + k) for k in memory]) for q in states])
        single = Counted(nn.Identity())  # f = g = identity, as Luong's dot
        f, g = torch.stack([single(q) for q in states]), torch.stack([single(k) for k in memory])
        dot = f @ g.mT
        heads = states[None, None], memory[None, None]
        general, plain_dot = General(1, WIDTH).double(), Softmax(scale=1.0)
        fused = F.scaled_dot_product_attention(*heads, heads[1], scale=1.0)
        differences = {
            "additive law": float((additive.softmax(-1) - kernel.weights(*heads)[0, 0]).abs().max()),
            "dot law": float((dot.softmax(-1) - plain_dot.weights(*heads)[0, 0]).abs().max()),
            "general": float((general.weights(*heads) - plain_dot.weights(*heads)).abs().max()),
            "fused": float((plain_dot(*heads, heads[1]) - fused).abs().max()),
        }
    counts = {"rows": ROWS, "columns": COLUMNS, "grid": pair.calls, "lists": single.calls}
    return {**counts, "additive": plain(additive, 3), "dot": plain(dot, 3), **differences}


def draw(numbers: Numbers) -> Figure:
    rows, columns = numbers["rows"], numbers["columns"]
    figure = style.page(
        TITLE, f"Scores of {rows} queries and {columns} keys. Every little network drawn is one evaluation.", height=5.6
    )
    axes = style.stage(figure)
    style.write(axes, 0.35, 4.25, "additive", ha="left", size=13, weight="bold")
    style.write(axes, 1.35, 4.25, f"$a(h_i, h\\prime_j)$: {numbers['grid']} networks", ha="left", size=13)
    style.write(axes, 5.35, 4.25, "dot product", ha="left", size=13, weight="bold")
    style.write(axes, 6.73, 4.25, f"$f(h_i)\\cdot g(h\\prime_j)$: {numbers['lists']} networks", ha="left", size=13)
    for left in (0.35, 5.35):
        lists(axes, left, rows, columns)
    for i in range(rows):
        y = 2.95 - 0.68 * i
        for j in range(columns):
            network(axes, 1.35 + 0.68 * j, y, style.SECOND)
            style.cells(axes, 6.65 + 0.68 * j - 0.3, y + 0.3, [[numbers["dot"][i][j]]], 0.6, limit=8, digits=1, size=9)
        network(axes, 5.97, y, style.QUERY, small=True)
    for j in range(columns):
        network(axes, 6.65 + 0.68 * j, 3.5, style.KEY, small=True)
    return figure


def lists(axes: Axes, left: float, rows: int, columns: int) -> None:
    """The names of the vectors at the two edges of the score matrix."""
    for i in range(rows):
        style.write(
            axes, left + (0.3 if left < 5 else 0.12), 2.95 - 0.68 * i, f"$h_{i + 1}$", size=15, color=style.QUERY
        )
    for j in range(columns):
        x = (1.35 if left < 5 else 6.65) + 0.68 * j
        style.write(axes, x, 3.52 if left < 5 else 3.88, f"$h\\prime_{j + 1}$", size=15, color=style.KEY)


def network(axes: Axes, x: float, y: float, tint: str, *, small: bool = False) -> None:
    """A little network in a box: two layers of dots and their connections."""
    half = 0.2 if small else 0.3
    style.box(axes, x - half, y - half, 2 * half, 2 * half, edge=tint, fill=style.mix(tint, 0.08), line=1.1)
    first = [(x - 0.5 * half, y + up * half) for up in ((-0.4, 0.4) if not small else (0,))]
    hidden = [(x, y + up * half) for up in (-0.55, 0, 0.55)]
    last = (x + 0.5 * half, y)
    for start in first:
        for middle in hidden:
            axes.plot(*zip(start, middle, strict=True), color=tint, lw=0.5, zorder=3)
    for middle in hidden:
        axes.plot(*zip(middle, last, strict=True), color=tint, lw=0.5, zorder=3)
    axes.plot(*zip(*first, *hidden, last, strict=True), "o", ms=2.2 if small else 3, color=tint, zorder=4)


def checks(numbers: Numbers) -> list[Check]:
    rows, columns = numbers["rows"], numbers["columns"]
    return [
        equal("evaluations for additive scores", numbers["grid"], rows * columns),
        equal("evaluations for dot-product scores", numbers["lists"], rows + columns),
        below("pair by pair equals the additive kernel", numbers["additive law"], 1e-10),
        below("f(h) g(h')^T equals the kernel with scale 1", numbers["dot law"], 1e-10),
        below("general with W = 1 equals dot", numbers["general"], 1e-10),
        below("dot equals PyTorch's attention with scale 1", numbers["fused"], 1e-10),
    ]
