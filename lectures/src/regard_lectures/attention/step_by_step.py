"""2.4: deck 003's boxes with live numbers: x_0, x_1, x_2 through linear layers to q, k, v, then the scores, divided by
sqrt(d_k), softmax, and the weighted sum.

The numbers are what passes the taps of one attention layer with small whole weights: all can be followed by hand.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "Self-attention, step by step"
DECKS = ("003", "000", "004")
CLAIM = "Each step computed by hand from q, k and v gives what the layer computes."
EXPECTED = "Each step computed by hand gives what the layer computes, and PyTorch’s attention the same."
FOUND = "The largest difference is 4e-16."
COST = 0.1
SEED = 40

TOKENS, WIDTH = 3, 4


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        attention = MultiHeadAttention(WIDTH, 1, biases="").double()
        for linear in (attention.q, attention.k, attention.v):
            assert linear is not None
            linear.weight.copy_(torch.randint(-1, 2, (WIDTH, WIDTH)))
        attention.out.weight.copy_(torch.eye(WIDTH))
        x = torch.randint(0, 3, (1, TOKENS, WIDTH)).double()
        with capture(attention, "*") as seen:
            output = attention(x)[0]
        q, k, v, weights = (seen[name][0][0, 0] for name in ("queries", "keys", "values", "weights"))
        scores = q @ k.mT
        scaled = scores / WIDTH**0.5
        by_hand = scaled.softmax(-1) @ v
        fused = F.scaled_dot_product_attention(q, k, v)
    parts = {"x": x[0], "q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "weights": weights, "y": output}
    return {
        **{name: plain(part, 8) for name, part in parts.items()},
        "weights differ": float((scaled.softmax(-1) - weights).abs().max()),
        "output differs": float((by_hand - output).abs().max()),
        "fused differs": float((fused - output).abs().max()),
        "wide": list(q.shape) == [TOKENS, WIDTH],
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Three tokens of width 4. The row of $x_0$ is followed: its query, its scores, its weights, its output.\n"
        "Cells are rounded to two digits; the sum at the bottom is written with four."
    )
    figure = style.page(TITLE, note, height=6.7)
    axes = style.stage(figure)
    for i in range(TOKENS):
        style.box(axes, 0.35, 4.53 - 0.44 * i, 0.42, 0.36, f"$x_{i}$", size=15, fill=style.SUNK)
    grid(axes, 0.95, 4.9, numbers["x"], style.EDGE, digits=0)
    for i, (name, tint) in enumerate((("q", style.QUERY), ("k", style.KEY), ("v", style.SOFT))):
        x = 3.75 + 2.15 * i
        style.box(axes, x - 0.15, 5.03, 1.9, 0.32, f"Linear  $W_{name}$", edge=tint, size=11, color=tint)
        grid(axes, x - 0.15 + 0.07, 4.9, numbers[name], tint, digits=0, pick=0 if name == "q" else None)
        style.write(axes, x - 0.33, 4.24, f"${name}$", size=18, color=tint)
    style.arrow(axes, (2.8, 4.24), (3.2, 4.24))
    steps = [
        ("scores", "$q_i \\cdot k_j$", 0),
        ("scaled", "$\\div \\sqrt{d_k} = \\div\\, 2$", 1),
        ("weights", "softmax", 2),
    ]
    for i, (name, text, digits) in enumerate(steps):
        x = 0.75 + 2.15 * i
        style.write(axes, x + 0.81, 3.12, text, size=15)
        square(axes, x, 2.8, numbers[name], digits, name == "weights")
        style.arrow(axes, (x + 1.71, 2.14), (x + 2.06, 2.14))
    style.write(axes, 8.36, 3.12, "$y_i = \\Sigma_j\\, a_{ij} v_j$", size=15)
    grid(axes, 7.2, 2.8, numbers["y"], style.WEIGHT, digits=2, pick=0)
    for i in range(TOKENS):
        style.write(axes, 0.48, 2.58 - 0.44 * i, f"$q_{i}$", size=14, color=style.QUERY)
        style.write(axes, 1.02 + 0.54 * i, 1.3, f"$k_{i}$", size=14, color=style.KEY)
        style.write(axes, 9.67, 2.58 - 0.44 * i, f"$y_{i}$", size=15)
    style.write(axes, 0.35, 0.66, followed(numbers), ha="left", va="center", size=11.5, family=style.MONO)
    return figure


def followed(numbers: Numbers) -> str:
    """The arithmetic of the first row, written out."""
    q, k, weights, v = numbers["q"][0], numbers["k"], numbers["weights"][0], numbers["v"]
    product = " + ".join(f"{bracketed(a)}·{bracketed(b)}" for a, b in zip(q, k[1], strict=True))
    total = " + ".join(f"{weight:.4f}·{bracketed(row[0])}" for weight, row in zip(weights, v, strict=True))
    lines = f"q0·k1 = {product} = {numbers['scores'][0][1]:.0f}\ny0[0] = {total} = {numbers['y'][0][0]:.4f}"
    return lines.replace("-", "−")


def bracketed(x: float) -> str:
    return f"({x:.0f})" if x < 0 else f"{x:.0f}"


def grid(
    axes: Axes, x: float, y: float, values: list[list[float]], tint: str, *, digits: int, pick: int | None = None
) -> None:
    """Vectors as rows of cells; one may be framed."""
    wide = 0.44 if digits < 2 else 0.58
    style.cells(axes, x, y, values, (wide, 0.44), tint=tint, limit=9, digits=digits, size=11 if digits < 2 else 9.5)
    if pick is not None:
        style.frame(axes, x, y - 0.44 * (pick + 1), wide * WIDTH, 0.44, style.QUERY)


def square(axes: Axes, x: float, y: float, values: list[list[float]], digits: int, final: bool) -> None:
    limit = 1 if final else 12
    style.cells(
        axes,
        x,
        y,
        values,
        (0.54, 0.44),
        tint=style.WEIGHT,
        limit=limit,
        digits=digits,
        size=10.5 if digits < 2 else 9.5,
    )
    style.frame(axes, x, y - 0.44, 0.54 * TOKENS, 0.44, style.QUERY)


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("softmax by hand equals the layer's weights", numbers["weights differ"], 1e-10),
        below("weighted sum by hand equals the layer's output", numbers["output differs"], 1e-10),
        below("PyTorch's attention gives the same", numbers["fused differs"], 1e-10),
        equal("queries are tokens by width, (3, 4)", numbers["wide"], True),
    ]
