"""2.8b: deck 000's figure for N = 3: every token looks at every token, nine arrows; N^2 of them, each an inner product
of width D. The counts are those of the matrix products in the kernel's explicit form.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import count_operations
from regard.nn.attention import Softmax
from regard.nn.mask import ALL
from regard_lectures.figure import Check, Numbers, equal, plain, seeded

TITLE = "Everyone with everyone: N = 3, nine arrows"
DECKS = ("000", "004")
CLAIM = "Attention over N tokens has N^2 weights and takes time O(N^2 D), space O(N^2)."
EXPECTED = "Attention over N = 3 tokens has 9 arrows, N^2 weights and O(N^2 D) operations."
FOUND = "9 weights and 288 operations for 3 tokens, four times as many of both for 6."
COST = 0.1
SEED = 4

TOKENS, WIDTH = 3, 8


def compute() -> Numbers:
    kernel = Softmax()
    with seeded(SEED), torch.no_grad():
        counts = {}
        for tokens in (TOKENS, 2 * TOKENS):
            q, k, v = torch.randn(3, 1, 1, tokens, WIDTH)
            weights = kernel.weights(2 * q, k)[0, 0]
            work = count_operations(lambda: kernel.explicit(q, k, v, ALL, None))  # noqa: B023
            counts[str(tokens)] = {"weights": weights.numel(), "operations": work, "map": plain(weights, 3)}
    return {"width": WIDTH, "counts": counts}


def draw(numbers: Numbers) -> Figure:
    small, large = numbers["counts"][str(TOKENS)], numbers["counts"][str(2 * TOKENS)]
    note = "Below, the inputs; above, the outputs. Twice as many tokens make four times as many arrows."
    figure = style.page(TITLE, note, height=5.0)
    axes = style.stage(figure)
    fan(axes, 0.9, 1.35, small["map"], line=6.0, size=17)
    fan(axes, 5.5, 0.8, large["map"], line=5.0, size=15)
    for x, tokens, found in ((0.45, TOKENS, small), (5.2, 2 * TOKENS, large)):
        style.write(axes, x, 3.72, f"$N = {tokens}$", ha="left", size=17)
        style.write(
            axes, x + 0.9, 3.72, f"{found['weights']} arrows, {found['operations']:,} operations", ha="left", size=11.5
        )
    return figure


def fan(axes: Axes, left: float, step: float, weights: list[list[float]], *, line: float, size: float) -> None:
    """A line from every input to every output, as thick as its weight."""
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            start, end = (left + step * j, 1.0), (left + step * i, 2.85)
            style.arrow(
                axes, start, end, color=style.mix(style.WEIGHT, 0.35 + 0.65 * weight), line=0.8 + line * weight, head=8
            )
    for i in range(len(weights)):
        x = left + step * i
        style.box(axes, x - 0.26, 0.52, 0.52, 0.44, f"$x_{i + 1}$", size=size, fill=style.KEY_WASH, edge=style.KEY)
        style.box(axes, x - 0.26, 2.9, 0.52, 0.44, f"$y_{i + 1}$", size=size, fill=style.QUERY_WASH, edge=style.QUERY)


def checks(numbers: Numbers) -> list[Check]:
    small, large = numbers["counts"][str(TOKENS)], numbers["counts"][str(2 * TOKENS)]
    return [
        equal("arrows for three tokens", small["weights"], 9),
        equal("operations for three tokens: 2 products of 2 N^2 D", small["operations"], 4 * 9 * numbers["width"]),
        equal("twice the tokens, four times the arrows", large["weights"], 4 * small["weights"]),
        equal("twice the tokens, four times the operations", large["operations"], 4 * small["operations"]),
    ]
