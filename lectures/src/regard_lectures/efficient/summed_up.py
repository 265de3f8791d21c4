"""10.5c: Linformer (Wang et al., 2020): keys and values are summed up along the sequence before anyone looks at them.

Deck 002 has the projection "between the weighted K, Q"; it is K and V that are projected, along the sequence, and Q is
left as it is. All numbers were heard in the library's layer while it ran: one of its two heads.
"""

from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.kernels.linformer import DenseProjection, Linformer
from regard.nn.mask import Mask
from regard.nn.mechanisms import build_mixer
from regard.nn.site import Site
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded
from regard_lectures.products import bracket, matrix, sign, turned

TITLE = "Linformer: few sums of many keys"
DECKS = ("002", "003", "004")
CLAIM = "Keys and values are summed up along the sequence, queries are not; with as many sums as keys nothing is lost."
EXPECTED = (
    "Linformer sums up keys and values along the sequence and leaves queries as they are; with E = F = 1 it equals "
    "attention exactly, and its projections grow linearly with the length."
)
FOUND = (
    "The layer equals softmax(Q (E K)^T / sqrt d) F V to 9e-16 and attention exactly where E = F = 1; E and F have "
    "384, 768 and 1,536 numbers for 64, 128 and 256 tokens."
)
COST = 0.2
SEED = 5

TOKENS, HEAD, HEADS, RANK, PADDED = 8, 4, 2, 3, 3
LENGTHS = (64, 128, 256)


def layer(length: int) -> MultiHeadAttention:
    made = build_mixer({"kind": "linformer", "rank": RANK}, Site(dim=HEAD * HEADS, heads=HEADS, length=length))
    assert isinstance(made, MultiHeadAttention)
    return made.double().eval()


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        mixer = layer(TOKENS)
        mixer.q.weight.mul_(8)  # so that there is something to see in the weights
        kernel = mixer.kernel
        assert isinstance(kernel, Linformer)
        heard: dict[str, list[Tensor]] = {}
        for name, module in (("E", kernel.keys), ("F", kernel.values), ("attention", kernel.softmax)):
            assert module is not None
            module.register_forward_hook(lambda _, given, y, name=name: heard.update({name: [*given[:3], y]}))
        x = torch.randn(1, TOKENS, HEAD * HEADS, dtype=torch.float64)
        projected = mixer.project(x, x, x)
        mixer.attend(*projected)
        q, k, v, y = heard["attention"]
        weights = kernel.softmax.weights(q, k)
        lengths = {str(n): sum(p.numel() for p in layer(n).kernel.parameters()) for n in LENGTHS}
        untouched = max(float((a - b).abs().max()) for a, b in ((q, projected[0]), (heard["E"][0], projected[1])))
        matrices = [part.matrix(TOKENS) for part in (kernel.keys, kernel.values) if isinstance(part, DenseProjection)]
        parts = {"K": projected[1], "V": projected[2], "EK": k, "FV": v, "Q": q, "weights": weights, "Y": y}
        return {
            **{name: plain(part[0, 0], 3) for name, part in parts.items()},
            "E": plain(matrices[0][0], 3),
            "F": plain(matrices[1][0], 3),
            "untouched": untouched,
            "by hand": by_hand(*projected, matrices, y),
            "whole": whole(*projected),
            "padded": padded(mixer.kernel, *projected),
            "unmasked": float((kernel(*(p[..., :-PADDED, :] for p in projected)) - y[..., :-PADDED, :]).abs().max()),
            "parameters": lengths,
        }


def by_hand(q: Tensor, k: Tensor, v: Tensor, matrices: list[Tensor], y: Tensor) -> float:
    e, f = matrices
    return float(((q @ (e @ k).mT / HEAD**0.5).softmax(-1) @ (f @ v) - y).abs().max())


def whole(q: Tensor, k: Tensor, v: Tensor) -> float:
    """As many sums as keys, each of one key: against PyTorch's attention."""
    kernel = Linformer(TOKENS, DenseProjection(1, TOKENS, TOKENS), DenseProjection(1, TOKENS, TOKENS)).double()
    for weight in kernel.parameters():
        weight.copy_(torch.eye(TOKENS))
    return float((kernel(q, k, v) - F.scaled_dot_product_attention(q, k, v)).abs().max())


def padded(kernel: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> float:
    """The last keys are padding: against the sentence by itself."""
    real = (torch.arange(TOKENS) < TOKENS - PADDED)[None]
    alone = kernel(*(part[..., :-PADDED, :] for part in (q, k, v)))
    return float((kernel(q, k, v, Mask(keys=real))[..., :-PADDED, :] - alone).abs().max())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Left, the layer; right, one head of it with {TOKENS} tokens and {RANK} sums: rows of $E$ and $F$ say which "
        "keys and values a sum\nis made of. Each query looks at these sums alone. Darker is larger, grey negative."
    )
    figure = style.page(TITLE, note, height=7.3)
    axes = style.stage(figure)
    plan(axes, numbers)
    products(axes, 3.93, numbers)
    return figure


def plan(axes: Axes, numbers: Numbers) -> None:
    """The layer from bottom to top; shapes are those of one head."""
    columns = {"Q": (0.75, style.QUERY), "K": (1.75, style.KEY), "V": (2.75, style.INK)}
    before, after = shape(numbers["K"]), shape(numbers["EK"])
    for name, (x, tint) in columns.items():
        style.write(axes, x, 0.5, f"${name}$", size=19, color=tint)
        style.arrow(axes, (x, 0.72), (x, 1.08), color=tint)
        for shift in (0.1, 0.05, 0.0):
            style.box(axes, x - 0.38 + shift, 1.1 + shift, 0.76, 0.36, "linear" if not shift else "", size=10.5)
        style.arrow(axes, (x, 1.58), (x, 2.3 if name != "Q" else 3.63), color=tint)
        style.write(axes, x + 0.08, 1.88, before, ha="left", size=9, color=style.SOFT)
        if name != "Q":
            look: dict[str, Any] = {"edge": style.WEIGHT, "fill": style.WEIGHT_WASH}
            style.box(axes, x - 0.38, 2.33, 0.76, 0.5, "$E$" if name == "K" else "$F$", size=17, line=1.8, **look)
            style.arrow(axes, (x, 2.85), (x, 3.63), color=tint)
            style.write(axes, x + 0.08, 3.2, after, ha="left", size=9, color=style.WEIGHT)
    style.box(axes, 0.37, 3.65, 2.81, 0.5, "softmax attention", fill=style.SUNK, size=12)
    for low, text in ((4.5, "concatenate heads"), (5.25, "linear")):
        style.arrow(axes, (1.77, low - 0.35), (1.77, low - 0.02))
        style.box(axes, 0.37, low, 2.81, 0.4, text, size=11)
    style.arrow(axes, (1.77, 5.65), (1.77, 5.98))
    axes.plot([3.65, 3.65], [0.35, 5.95], color=style.LINE, lw=1.2)


def shape(values: list[list[float]]) -> str:
    return f"{len(values)} × {len(values[0])}"


def products(axes: Axes, left: float, numbers: Numbers) -> None:
    cell, top, middle, low = 0.13, 5.05, 3.05, 1.1
    for place, names, tint in ((left, "EK", style.KEY), (left + 3.0, "FV", style.SOFT)):
        x = matrix(axes, place, top, numbers[names[0]], f"${names[0]}$", style.WEIGHT, cell=cell)
        x = matrix(axes, sign(axes, x, top, "×", room=0.36), top, numbers[names[1]], f"${names[1]}$", tint, cell=cell)
        matrix(axes, sign(axes, x, top, "=", room=0.36), top, numbers[names], f"${names}$", tint, cell=cell)
    style.write(axes, left, middle + 0.03, "softmax", ha="left", size=13)
    bracket(axes, left + 0.95, middle, "(")
    x = matrix(axes, left + 1.15, middle, numbers["Q"], "$Q$", style.QUERY, cell=cell)
    x = matrix(axes, sign(axes, x, middle, "×"), middle, turned(numbers["EK"]), "$(EK)^T$", style.KEY, cell=cell)
    style.write(axes, x + 0.4, middle, "$/\\,\\sqrt{d}$", size=15)
    bracket(axes, x + 0.8, middle, ")")
    matrix(
        axes, sign(axes, x + 0.9, middle, "="), middle, numbers["weights"], "weights", style.WEIGHT, cell=cell, limit=1
    )
    x = matrix(axes, left + 1.15, low, numbers["weights"], "weights", style.WEIGHT, cell=cell, limit=1)
    x = matrix(axes, sign(axes, x, low, "×"), low, numbers["FV"], "$FV$", style.SOFT, cell=cell)
    x = matrix(axes, sign(axes, x, low, "="), low, numbers["Y"], "$Y$", style.WEIGHT, cell=cell)
    count = numbers["parameters"]
    says = "numbers in $E$ and $F$:\n" + "\n".join(f"{n} tokens, {count[str(n)]:,}" for n in LENGTHS)
    style.write(axes, x + 0.75, low, says, ha="left", size=10.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    found = {name: shape(numbers[name]).replace("×", "x") for name in ("Q", "EK", "FV", "weights", "Y")}
    counts = {n: numbers["parameters"][str(n)] for n in LENGTHS}
    return [
        equal("queries", found["Q"], f"{TOKENS} x {HEAD}"),
        equal("summed keys", found["EK"], f"{RANK} x {HEAD}"),
        equal("summed values", found["FV"], f"{RANK} x {HEAD}"),
        equal("weights", found["weights"], f"{TOKENS} x {RANK}"),
        equal("output", found["Y"], f"{TOKENS} x {HEAD}"),
        equal("the queries that are compared minus the projected ones", numbers["untouched"], 0.0),
        below("the layer against softmax(Q (E K)^T / sqrt d) F V", numbers["by hand"], 1e-12),
        below("E = F = 1 against PyTorch's attention", numbers["whole"], 1e-12),
        below("padding against no padding", numbers["padded"], 1e-12),
        above("the same, but nobody says that it is padding", numbers["unmasked"], 0.01),
        *(equal(f"numbers in E and F, {n} tokens", count, 2 * RANK * n) for n, count in counts.items()),
    ]
