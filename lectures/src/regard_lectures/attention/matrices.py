"""2.4c: deck 002's matrices. Three products make Q, K and V of the same X; then two more give the output."""

import torch
from matplotlib.figure import Figure

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded
from regard_lectures.products import bracket, matrix, sign, turned

TITLE = "Queries, keys and values as matrices"
DECKS = ("002", "003")
CLAIM = (
    "Q is N_q by d_k, K is N_k by d_k, V is N_k by d_v, the weights N_q by N_k; the products give the layer's output."
)
EXPECTED = "Q, K, V and the weights have the shapes of the slide, and the products give the layer’s output."
FOUND = "All four shapes are as expected; the products differ from the layer by 6e-17."
COST = 0.1
SEED = 1

TOKENS, WIDTH, HEAD = 4, 6, 3


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        attention = MultiHeadAttention(WIDTH, 1, head_dim=HEAD, biases="").double()
        attention.q.weight.mul_(4)  # so that there is something to see in the weights
        x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
        with capture(attention, "*") as seen:
            attention(x)
        q, k, v, weights, mixed = (seen[name][0][0, 0] for name in ("queries", "keys", "values", "weights", "mixed"))
        assert attention.k is not None
        assert attention.v is not None
        matrices = {"q": attention.q.weight.mT, "k": attention.k.weight.mT, "v": attention.v.weight.mT}
        projected = max(float((x[0] @ matrices[n] - part).abs().max()) for n, part in (("q", q), ("k", k), ("v", v)))
        product = (q @ k.mT / HEAD**0.5).softmax(-1) @ v
    return {
        "x": plain(x[0], 3),
        "matrices": {name: plain(matrix, 3) for name, matrix in matrices.items()},
        "projections": {"q": plain(q, 3), "k": plain(k, 3), "v": plain(v, 3)},
        "weights": plain(weights, 3),
        "z": plain(mixed, 3),
        "shapes": [list(part.shape) for part in (q, k, v, weights)],
        "projected": projected,
        "product": float((product - mixed).abs().max()),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{TOKENS} tokens of width {WIDTH}, queries, keys and values of width {HEAD}; darker is larger, grey negative."
    )
    figure = style.page(TITLE, note, height=7.2)
    axes = style.stage(figure)
    for i, (name, tint) in enumerate((("q", style.QUERY), ("k", style.KEY), ("v", style.SOFT))):
        y = 4.99 - 2.02 * i
        x = matrix(axes, 0.45, y, numbers["x"], "$X$", style.EDGE)
        x = matrix(axes, sign(axes, x, y, "×"), y, numbers["matrices"][name], f"$W_{name}$", tint)
        matrix(axes, sign(axes, x, y, "="), y, numbers["projections"][name], f"${name.upper()}$", tint)
    axes.plot([5.05, 5.05], [0.3, 5.8], color=style.LINE, lw=1.2)
    y, low = 4.15, 1.95
    style.write(axes, 5.35, y + 0.03, "softmax", ha="left", size=14)
    bracket(axes, 6.4, y, "(")
    x = matrix(axes, 6.6, y, numbers["projections"]["q"], "$Q$", style.QUERY)
    x = matrix(axes, sign(axes, x, y, "×"), y, turned(numbers["projections"]["k"]), "$K^T$", style.KEY)
    style.write(axes, x + 0.42, y, "$/\\,\\sqrt{d_k}$", size=16)
    bracket(axes, x + 0.85, y, ")")
    x = matrix(axes, 6.0, low, numbers["weights"], "weights", style.WEIGHT, limit=1)
    style.write(axes, 5.65, low, "=", size=18, color=style.SOFT)
    x = matrix(axes, sign(axes, x, low, "×"), low, numbers["projections"]["v"], "$V$", style.SOFT)
    matrix(axes, sign(axes, x, low, "="), low, numbers["z"], "$Z$", style.WEIGHT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    q, k, v, weights = numbers["shapes"]
    return [
        equal("Q is N_q x d_k", str(q), str([TOKENS, HEAD])),
        equal("K is N_k x d_k", str(k), str([TOKENS, HEAD])),
        equal("V is N_k x d_v", str(v), str([TOKENS, HEAD])),
        equal("the weights are N_q x N_k", str(weights), str([TOKENS, TOKENS])),
        below("X W gives Q, K and V", numbers["projected"], 1e-10),
        below("softmax(Q K^T / sqrt(d_k)) V gives the layer's output", numbers["product"], 1e-10),
    ]
