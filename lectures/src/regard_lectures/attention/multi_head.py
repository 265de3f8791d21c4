"""2.5b: the multi-head diagram of decks 001, 002 and 003, with the shapes that pass the taps of a layer.

Concat(head_1 ... head_h) W^O is also a sum over heads, A_i X (W_i^V W_i^O): each head writes into the output by itself.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "Multi-head attention"
DECKS = ("001", "002", "003")
CLAIM = "Heads side by side and concatenated equal the sum over heads, and PyTorch's own layer."
EXPECTED = "Heads side by side and concatenated equal the sum over heads, and PyTorch’s MultiheadAttention."
FOUND = "The largest difference is 1e-15; a head’s value map has rank 8, its width."
COST = 0.1
SEED = 5

TOKENS, WIDTH, HEADS = 6, 32, 4


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        layer = MultiHeadAttention(WIDTH, HEADS).double()
        layer.q.weight.mul_(4)  # so that there is something to see in the maps
        x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
        with capture(layer, "*") as seen:
            output = layer(x)
        weights = seen["weights"][0][0]
        values, outputs = maps(layer)
        products = values @ outputs  # (h, d, d): what a head reads and where it writes
        assert layer.v is not None
        constant = layer.v.bias @ layer.out.weight.mT + layer.out.bias  # the biases pass through, for rows add up to 1
        summed = (weights @ x[0] @ products).sum(0) + constant
        theirs = reference(layer)(x, x, x)[0]
        lone = MultiHeadAttention(WIDTH, 1, biases="").double()
        for linear in (lone.q, lone.k, lone.v, lone.out):
            assert linear is not None
            nn.init.eye_(linear.weight)
    shapes = {name: list(seen[name][0].shape[1:]) for name in ("queries", "keys", "values", "weights", "mixed")}
    return {
        "shapes": {**shapes, "input": list(x.shape[1:]), "output": list(output.shape[1:])},
        "maps": plain(weights, 3),
        "summed": float((summed - output[0]).abs().max()),
        "torch": float((theirs - output).abs().max()),
        "rank": int(max(torch.linalg.matrix_rank(product) for product in products)),
        "alone": float((lone(x) - F.scaled_dot_product_attention(x, x, x)).abs().max().detach()),
    }


def maps(layer: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """W_i^V (h, d, f) and W_i^O (h, f, d) of every head."""
    assert layer.v is not None
    values = layer.v.weight.mT.reshape(WIDTH, HEADS, -1).transpose(0, 1)
    return values, layer.out.weight.mT.reshape(HEADS, -1, WIDTH)


def reference(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's layer with the same weights."""
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    parts = [linear for linear in (layer.q, layer.k, layer.v) if linear is not None]
    theirs.in_proj_weight.copy_(torch.cat([linear.weight.detach() for linear in parts]))
    theirs.in_proj_bias.copy_(torch.cat([linear.bias.detach() for linear in parts]))
    theirs.out_proj.load_state_dict(layer.out.state_dict())
    return theirs


def draw(numbers: Numbers) -> Figure:
    note = f"{HEADS} heads, {TOKENS} tokens, width {WIDTH}. Each head has its own projections; one matrix joins them."
    figure = style.page(TITLE, note, height=6.25)
    axes = style.stage(figure)
    shapes = {name: " × ".join(map(str, shape)) for name, shape in numbers["shapes"].items()}
    for i, (name, tint) in enumerate((("V", style.INK), ("K", style.KEY), ("Q", style.QUERY))):
        x = 0.95 + 1.5 * i
        style.write(axes, x, 0.62, f"${name}$", size=19, color=tint)
        style.arrow(axes, (x, 0.84), (x, 1.18), color=tint)
        stacked(axes, x - 0.55, 1.2, 1.1, "Linear", tint)
        style.arrow(axes, (x + 0.1, 1.78), (x + 0.1, 2.28), color=tint)
    stacked(axes, 0.4, 2.3, 4.1, "Scaled dot-product attention", style.WEIGHT)
    style.arrow(axes, (2.55, 2.9), (2.55, 3.4))
    style.box(axes, 1.55, 3.42, 2.0, 0.42, "Concat", edge=style.SOFT, fill=style.SUNK, size=13)
    style.arrow(axes, (2.55, 3.86), (2.55, 4.3))
    style.box(axes, 1.55, 4.32, 2.0, 0.42, "Linear  $W^O$", edge=style.SOFT, fill=style.SUNK, size=13)
    style.arrow(axes, (2.55, 4.76), (2.55, 5.15))
    lines = [(0.62, "input"), (2.02, "queries"), (2.5, "weights"), (3.2, "mixed"), (4.95, "output")]
    said = {"queries": "q, k and v", "weights": "weights", "mixed": "what each head brings"}
    for y, name in lines:
        style.write(axes, 5.05, y, shapes[name], ha="left", size=11, color=style.INK)
        style.write(axes, 6.05, y, said.get(name, name), ha="left", size=11, color=style.SOFT)
    for head, table in enumerate(numbers["maps"]):
        x = 7.05 + 0.68 * head
        style.cells(axes, x, 2.82, table, 0.1, limit=1)
        style.write(axes, x + 0.3, 2.92, f"head {head}", size=9, color=style.SOFT)
    return figure


def stacked(axes: Axes, x: float, y: float, width: float, text: str, tint: str) -> None:
    """A box for every head, one behind the other."""
    for i in reversed(range(HEADS)):
        shift = 0.055 * i
        fill = style.mix(tint, 0.1) if i == 0 else "white"
        style.box(
            axes, x + shift, y + shift, width, 0.42, text if i == 0 else "", edge=tint, fill=fill, size=12.5, line=1.1
        )


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("the sum over heads equals the concatenation", numbers["summed"], 1e-10),
        below("PyTorch's MultiheadAttention with the same weights", numbers["torch"], 1e-10),
        equal("largest rank of a head's W^V W^O", numbers["rank"], WIDTH // HEADS),
        below("one head, identity projections: PyTorch's attention", numbers["alone"], 1e-10),
        equal(
            "weights have the shape heads x tokens x tokens",
            str(numbers["shapes"]["weights"]),
            str([HEADS, TOKENS, TOKENS]),
        ),
    ]
