"""10.3b: Performer's brackets: (f(Q) f(K)^T) V and f(Q) (f(K)^T V) are the same, but the second never forms N x N.

The features f are the library's positive ones, of random queries and keys. Operations are counted by PyTorch while the
kernel's definition (weights, then values) and its fast form run.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent, count_operations
from regard.nn.kernels.performer import Performer, Settings
from regard.nn.mask import ALL
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded, within
from regard_lectures.products import bracket, matrix, sign

TITLE = "Where the brackets stand"
DECKS = ("004",)
CLAIM = "Keys times values first gives the same output, in operations that grow with N instead of its square."
EXPECTED = (
    "f(Q) (f(K)^T V) gives the same output as (f(Q) f(K)^T) V, without a matrix of N x N, in operations that grow with "
    "N instead of its square."
)
FOUND = (
    "The two differ by 3e-16; for 2,048 tokens pairs take 2.82 billion operations and sums 0.27 billion, which grow as "
    "N to the 1.00."
)
COST = 1.0
SEED = 1

TOKENS, WIDTH, FEATURES = 12, 4, 6
SIZES = [16, 64, 256, 1024, 2048]
HEAD, MANY = 64, 256  # width of a head and number of features of the counts


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        kernel = Performer(WIDTH, Settings(features=FEATURES)).double().eval()
        q, k, v = torch.randn(3, 1, 1, TOKENS, WIDTH, dtype=torch.float64)
        lift = kernel.linear(kernel.directions.matrix).lift
        a, b = ((lifted.values * lifted.level.exp())[0, 0] for lifted in (lift(q), lift(k)))
        slow, fast = a @ b.mT @ v[0, 0], a @ (b.mT @ v[0, 0])
        divided = fast / (a @ b.sum(0))[:, None]
        large = Performer(HEAD, Settings(features=MANY)).eval()
        counts = [count(large, torch.randn(3, 1, 1, n, HEAD)) for n in SIZES]
    parts = {"a": a, "b": b.mT, "v": v[0, 0], "scores": a @ b.mT, "state": b.mT @ v[0, 0], "y": fast}
    return {
        **{name: plain(part, 3) for name, part in parts.items()},
        "differs": float((slow - fast).abs().max() / fast.abs().max()),
        "layer": float((kernel(q, k, v)[0, 0] - divided).abs().max()),
        "definition": float((kernel(q, k, v) - kernel.explicit(q, k, v, ALL, None)).abs().max()),
        "operations": {"pairs": [pair[0] for pair in counts], "sums": [pair[1] for pair in counts]},
    }


def count(kernel: Performer, x: Tensor) -> tuple[int, int]:
    q, k, v = x
    return count_operations(lambda: kernel.explicit(q, k, v, ALL, None)), count_operations(lambda: kernel(q, k, v))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{FEATURES} features of each of {TOKENS} queries and keys, and values of width {WIDTH}. "
        "Framed: what the bracket leaves in memory.\n"
        f"Below, the operations of a head of width {HEAD} with {MANY} features, counted while it ran."
    )
    figure = style.page(TITLE, note, height=7.7)
    axes = style.stage(figure)
    pairs_first(axes, 5.25, numbers)
    sums_first(axes, 2.85, numbers)
    chart(axes, numbers["operations"])
    return figure


SMALL = 0.13


def pairs_first(axes: Axes, y: float, numbers: Numbers) -> None:
    bracket(axes, 0.45, y, "(")
    x = matrix(axes, 0.64, y, numbers["a"], "$\\phi(Q)$", style.QUERY, cell=SMALL)
    x = matrix(axes, sign(axes, x, y, "×"), y, numbers["b"], "$\\phi(K)^T$", style.KEY, cell=SMALL)
    bracket(axes, x + 0.18, y, ")")
    x = matrix(axes, sign(axes, x + 0.3, y, "×"), y, numbers["v"], "$V$", style.SOFT, cell=SMALL)
    result(axes, x, y, numbers["scores"], "every pair", numbers)


def sums_first(axes: Axes, y: float, numbers: Numbers) -> None:
    x = matrix(axes, 0.64, y, numbers["a"], "$\\phi(Q)$", style.QUERY, cell=SMALL)
    x = sign(axes, x, y, "×")
    bracket(axes, x + 0.1, y, "(")
    x = matrix(axes, x + 0.3, y, numbers["b"], "$\\phi(K)^T$", style.KEY, cell=SMALL)
    x = matrix(axes, sign(axes, x, y, "×"), y, numbers["v"], "$V$", style.SOFT, cell=SMALL)
    bracket(axes, x + 0.18, y, ")")
    result(axes, x, y, numbers["state"], "sums", numbers)


def result(axes: Axes, x: float, y: float, inner: list[list[float]], name: str, numbers: Numbers) -> None:
    """What stands in memory in between, and the output."""
    place = 6.5 - SMALL * len(inner[0]) / 2
    style.arrow(axes, (x + 0.45, y), (place - 0.2, y))
    end = matrix(axes, place, y, inner, name, style.WEIGHT, cell=SMALL)
    height = SMALL * len(inner)
    style.frame(axes, place, y - height / 2, end - place, height, style.WEIGHT)
    style.arrow(axes, (end + 0.2, y), (8.8, y))
    matrix(axes, 9.0, y, numbers["y"], "output", style.WEIGHT, cell=SMALL)


def chart(axes: Axes, found: dict[str, list[int]]) -> None:
    """A table of the counts: a row for each bracket, a column for each N."""
    columns = [4.05 + 1.4 * i for i in range(len(SIZES))]
    style.write(axes, 0.35, 1.1, "operations", ha="left", va="baseline", size=10.5, color=style.SOFT)
    for x, n in zip(columns, SIZES, strict=True):
        style.write(axes, x, 1.1, f"$N$ = {n:,}", ha="right", va="baseline", size=10.5, color=style.SOFT)
    lines = {"$(\\phi(Q)\\,\\phi(K)^T)\\;V$": "pairs", "$\\phi(Q)\\;(\\phi(K)^T V)$": "sums"}
    for i, (text, name) in enumerate(lines.items()):
        y = 0.75 - 0.36 * i
        axes.plot([0.35, columns[-1]], [y + 0.22] * 2, color=style.LINE, lw=1)
        style.write(axes, 0.35, y, text, ha="left", va="baseline", size=14)
        for x, n, other in zip(columns, found[name], found["sums" if name == "pairs" else "pairs"], strict=True):
            weight = "bold" if n < other else "normal"
            style.write(axes, x, y, f"{n / 1e6:,.1f} M", ha="right", va="baseline", size=11.5, weight=weight)


def checks(numbers: Numbers) -> list[Check]:
    found, last = numbers["operations"], SIZES[-1]
    lifting = 4 * last * HEAD * MANY  # queries and keys to features
    shapes = {name: f"{len(numbers[name])} x {len(numbers[name][0])}" for name in ("scores", "state", "y")}
    return [
        below("the two brackets, largest difference", numbers["differs"], 1e-12),
        below("the kernel's fast form against f(Q) (f(K)^T V), divided", numbers["layer"], 1e-12),
        below("the kernel's fast form against its definition", numbers["definition"], 1e-12),
        equal("what f(Q) f(K)^T leaves", shapes["scores"], f"{TOKENS} x {TOKENS}"),
        equal("what f(K)^T V leaves", shapes["state"], f"{FEATURES} x {WIDTH}"),
        equal("the output", shapes["y"], f"{TOKENS} x {WIDTH}"),
        equal("operations by pairs", found["pairs"][-1], lifting + 2 * last * last * (MANY + HEAD)),
        equal("operations by sums", found["sums"][-1], lifting + 4 * last * MANY * (HEAD + 1)),
        within("growth by sums", cost_exponent(SIZES, found["sums"]), 0.999, 1.001),
        within("growth by pairs, from 1,024 tokens on", cost_exponent(SIZES[-2:], found["pairs"][-2:]), 1.8, 2.0),
    ]
