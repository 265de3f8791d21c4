"""2.4e: the stack of boxes "scaled dot-product attention" of decks 001 and 002, with the shapes that pass through it.

Each box is a function; run one after the other they are the kernel, with a mask as without.
"""

from itertools import pairwise

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import Softmax
from regard.nn.mask import ALL, CAUSAL, Mask
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "Scaled dot-product attention"
DECKS = ("001", "002", "003")
CLAIM = "MatMul, Scale, Mask, SoftMax, MatMul, one after the other, are the attention kernel."
EXPECTED = "MatMul, Scale, Mask, SoftMax and MatMul, one after the other, are the attention kernel."
FOUND = "The largest difference is 4e-16, with a mask as without."
COST = 0.1
SEED = 0

LENGTH, WIDTH = 7, 16
SAYS = {
    "MatMul": "$Q K^T$",
    "Scale": "$Q K^T / \\sqrt{d_k}$",
    "Mask (opt.)": "the future is hidden",
    "SoftMax": "rows add up to 1",
    "MatMul ": "weights times $V$",
}


def stack(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> dict[str, Tensor]:
    """The boxes from bottom to top, each by itself."""
    product = q @ k.mT
    scaled = product / q.shape[-1] ** 0.5
    allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
    masked = scaled if allowed is None else scaled.masked_fill(~allowed, -torch.inf)
    weights = masked.softmax(-1)
    return {"MatMul": product, "Scale": scaled, "Mask (opt.)": masked, "SoftMax": weights, "MatMul ": weights @ v}


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        q, k, v = torch.randn(3, 1, 1, LENGTH, WIDTH, dtype=torch.float64)
        free, causal = stack(q, k, v, ALL), stack(q, k, v, CAUSAL)
        kernel = Softmax()
        return {
            "shapes": {name: list(part.shape[-2:]) for name, part in causal.items()},
            "maps": {name: plain(part[0, 0].where(part[0, 0].isfinite(), 0.0), 3) for name, part in causal.items()},
            "heads": [LENGTH, WIDTH],
            "plain": float((free["MatMul "] - kernel(q, k, v)).abs().max()),
            "masked": float((causal["MatMul "] - kernel(q, k, v, CAUSAL)).abs().max()),
            "weights": float((causal["SoftMax"] - kernel.weights(q, k, CAUSAL)).abs().max()),
        }


def draw(numbers: Numbers) -> Figure:
    note = f"Left, the boxes; right, what leaves each: one head, {LENGTH} tokens, width {WIDTH}, a look-ahead mask."
    figure = style.page(TITLE, note, height=6.9)
    axes = style.stage(figure)
    heights, x = [1.3, 2.2, 3.1, 4.0, 4.95], 2.1
    for (name, shape), y in zip(numbers["shapes"].items(), heights, strict=True):
        wide = 2.9 if name == "MatMul " else 1.7
        tint = style.SOFT if name.startswith(("Mask", "Scale")) else style.WEIGHT
        style.box(axes, x - 0.85, y, wide, 0.44, name.strip(), edge=tint, fill=style.mix(tint, 0.12), size=13)
        limit = 1 if name == "SoftMax" else None
        style.cells(axes, 5.6, y + 0.6, numbers["maps"][name], 0.105, tint=style.WEIGHT, limit=limit)
        style.write(axes, 8.15, y + 0.24, SAYS[name], size=11, ha="left", color=style.INK)
        style.write(axes, 7.4, y + 0.24, f"{shape[0]} × {shape[1]}", size=11, ha="left", color=style.SOFT)
    for low, high in pairwise(heights):
        style.arrow(axes, (x, low + 0.46), (x, high - 0.02))
    style.arrow(axes, (x + 0.6, heights[-1] + 0.46), (x + 0.6, heights[-1] + 0.8))
    size = "{} × {}".format(*numbers["heads"])
    for name, place, tint in (("Q", x - 0.5, style.QUERY), ("K", x + 0.5, style.KEY), ("V", x + 1.75, style.INK)):
        end = heights[-1] if name == "V" else heights[0]
        style.arrow(axes, (place, 0.86), (place, end - 0.02), color=tint)
        style.write(axes, place, 0.62, f"${name}$", size=19, color=tint)
        style.write(axes, place, 0.3, size, size=10, color=style.SOFT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    shapes = numbers["shapes"]
    return [
        below("the stack without a mask equals the kernel", numbers["plain"], 1e-10),
        below("the stack with a causal mask equals the kernel", numbers["masked"], 1e-10),
        below("its weights equal the kernel's", numbers["weights"], 1e-10),
        equal("weights are tokens by tokens", str(shapes["SoftMax"]), str([LENGTH, LENGTH])),
        equal("the output is as wide as the values", str(shapes["MatMul "]), str([LENGTH, WIDTH])),
    ]
