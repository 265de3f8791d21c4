"""10.2: softmax attention beside random feature attention (Peng et al., 2021): what each computes of the same q, k, v.

Softmax compares every query with every key. Random features lift both to sines and cosines whose products estimate the
same weights, so keys are summed once, to a state that does not grow with their number. Queries and keys have length s
there; what is estimated is the softmax of their cosines times s^2.
"""

import math

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent
from regard.nn.attention import Softmax
from regard.nn.cache import Slot
from regard.nn.kernels.rfa import FourierFeatures, RandomFeatures, Settings
from regard.nn.mask import CAUSAL
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded, within
from regard_lectures.products import matrix, sign, step, turned

TITLE = "Attention from sums of sines and cosines"
DECKS = ("001",)
CLAIM = "Random features estimate the softmax of cosines, with an error of 1 over the root of their number."
EXPECTED = (
    "The error of random features falls as 1 over the root of their number; many of them equal softmax attention of "
    "unit queries and keys, and a constant gate is a sum that decays."
)
FOUND = (
    "The error falls as D to the -0.49; 131,072 directions differ from PyTorch's attention by 0.012; the state has 50 "
    "numbers, for 8 tokens as for 64."
)
COST = 1.5
SEED = 2

TOKENS, WIDTH, DRAWN, LENGTH = 8, 4, 5, 1.5  # LENGTH is s
COUNTS = [16, 64, 256, 1024, 4096]
SHOWN, MANY, DRAWS, GATE = (16, 64, 1024), 1 << 17, 40, 0.8


def kernel(directions: int, length: float, *, gate: bool = False) -> RandomFeatures:
    made = RandomFeatures(1, WIDTH, Settings(features=directions, gate=gate)).double().eval()
    with torch.no_grad():
        made.log_scale.fill_(math.log(length))
    return made


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        q, k, v = torch.randn(3, 1, 1, TOKENS, WIDTH, dtype=torch.float64)
        unit = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        exact, small = Softmax(scale=LENGTH**2), kernel(DRAWN, LENGTH)
        a, b = (FourierFeatures(small.directions.matrix, 1.0)(small.turned(x)).values[0, 0] for x in (q, k))
        fine = kernel(MANY, LENGTH)(q, k, v) - F.scaled_dot_product_attention(*unit, v, scale=LENGTH**2)
        parts = {"q": q, "k": k, "v": v, "weights": exact.weights(*unit), "y": exact(*unit, v)}
        return {
            **{name: plain(part[0, 0], 3) for name, part in parts.items()},
            "a": plain(a, 3),
            "b": plain(b, 3),
            "state": plain(b.mT @ v[0, 0], 3),
            "rough": plain(small(q, k, v)[0, 0], 3),
            "maps": {str(count): plain(kernel(count, LENGTH).weights(q, k)[0, 0], 3) for count in SHOWN},
            "errors": [error(count, q, k) for count in COUNTS],
            "fine": float(fine.abs().max()),
            "brackets": bracketed(q, k, v),
            "kept": [kept(tokens) for tokens in (TOKENS, 8 * TOKENS)],
            "faded": faded(q, k, v),
        }


def error(directions: int, q: Tensor, k: Tensor) -> float:
    """Of products of features against exp(-|q - k|^2 / 2): root of the mean square over several draws."""
    found = []
    for _ in range(DRAWS):
        made = kernel(directions, LENGTH)
        a, b = (FourierFeatures(made.directions.matrix, 1.0)(made.turned(x)).values for x in (q, k))
        found.append(a @ b.mT - torch.exp(-torch.cdist(made.turned(q), made.turned(k)).square() / 2))
    return float(torch.stack(found).square().mean().sqrt())


def bracketed(q: Tensor, k: Tensor, v: Tensor) -> float:
    """The layer against f(q) (f(K)^T V) / f(q) (f(K)^T 1), by hand; with enough features for a sum that is not 0."""
    made = kernel(256, 1.0)
    a, b = (FourierFeatures(made.directions.matrix, 1.0)(made.turned(x)).values for x in (q, k))
    by_hand = a @ (b.mT @ v) / (a @ b.sum(-2, keepdim=True).mT)
    return float((made(q, k, v) - by_hand).abs().max())


def kept(tokens: int) -> int:
    """How many numbers decoding keeps of that many tokens."""
    slot, (q, k, v) = Slot(0), torch.randn(3, 1, 1, tokens, WIDTH, dtype=torch.float64)
    kernel(DRAWN, LENGTH).step(slot, q, k, v, CAUSAL)
    return slot["sums"].numel()


def faded(q: Tensor, k: Tensor, v: Tensor) -> float:
    """A gate that is always GATE against the sum over all earlier keys, each times GATE^(its age)."""
    made = kernel(256, 1.0, gate=True)
    assert made.gate is not None
    made.gate.bias.fill_(math.log(GATE / (1 - GATE)))
    a, b = (FourierFeatures(made.directions.matrix, 1.0)(made.turned(x)).values for x in (q, k))
    age = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    weights = (a @ b.mT) * torch.where(age < 0, 0.0, GATE ** age.double())
    return float((made(q, k, v, CAUSAL) - weights / weights.sum(-1, keepdim=True) @ v).abs().max())


CELL, LEFT = 0.15, 1.85


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{TOKENS} tokens, a head of width {WIDTH}; darker is larger, grey negative. Above, every query meets every "
        "key. In the middle\nboth become sines and cosines, and keys meet values first: their sum is a state that does "
        "not grow."
    )
    figure = style.page(TITLE, note, height=7.6)
    axes = style.stage(figure)
    exact(axes, 5.42, numbers)
    lifted(axes, 3.3, numbers)
    estimates(axes, 1.22, numbers)
    return figure


def exact(axes: Axes, y: float, numbers: Numbers) -> None:
    heading(axes, y, "softmax", f"{TOKENS * TOKENS} weights,\none for each pair")
    x = matrix(axes, LEFT, y, numbers["q"], "$Q$", style.QUERY, cell=CELL)
    x = matrix(axes, sign(axes, x, y, "×"), y, turned(numbers["k"]), "$K^T$", style.KEY, cell=CELL)
    x = step(axes, x, y, "softmax")
    x = matrix(axes, x, y, numbers["weights"], "weights", style.WEIGHT, cell=CELL, limit=1)
    x = matrix(axes, sign(axes, x, y, "×"), y, numbers["v"], "$V$", style.SOFT, cell=CELL)
    matrix(axes, sign(axes, x, y, "="), y, numbers["y"], "$Y$", style.WEIGHT, cell=CELL)


def lifted(axes: Axes, y: float, numbers: Numbers) -> None:
    says = f"{numbers['kept'][0]} numbers are kept,\nof {TOKENS} tokens or {8 * TOKENS}"
    heading(axes, y, "random\nfeatures", says)
    x = matrix(axes, LEFT, y, turned(numbers["b"]), "$\\phi(K)^T$", style.KEY, cell=CELL)
    x = matrix(axes, sign(axes, x, y, "×"), y, numbers["v"], "$V$", style.SOFT, cell=CELL)
    x = matrix(axes, sign(axes, x, y, "="), y, numbers["state"], "state", style.WEIGHT, cell=CELL)
    x = matrix(axes, x + 0.5, y, numbers["a"], "$\\phi(Q)$", style.QUERY, cell=CELL)
    x = matrix(axes, sign(axes, x, y, "×"), y, numbers["state"], "state", style.WEIGHT, cell=CELL)
    x = step(axes, x, y, "÷ sum")
    matrix(axes, x, y, numbers["rough"], "$Y$", style.WEIGHT, cell=CELL)


def estimates(axes: Axes, y: float, numbers: Numbers) -> None:
    heading(axes, y, "estimated\nweights", "of three draws")
    errors = dict(zip(COUNTS, numbers["errors"], strict=True))
    for i, count in enumerate(SHOWN):
        x = LEFT + 2.05 * i
        small_map(
            axes, x, y, numbers["maps"][str(count)], f"{count:,} directions", f"kernel off by {errors[count]:.2f}"
        )
    small_map(axes, LEFT + 2.05 * len(SHOWN), y, numbers["weights"], "softmax", "exact")


def small_map(axes: Axes, x: float, y: float, values: list[list[float]], over: str, under: str) -> None:
    half = CELL * TOKENS / 2
    style.cells(axes, x, y + half, values, CELL, limit=1)
    style.write(axes, x + half, y + half + 0.17, over, size=10.5)
    style.write(axes, x + half, y - half - 0.17, under, size=10, color=style.SOFT)


def heading(axes: Axes, y: float, name: str, says: str) -> None:
    style.write(axes, 0.3, y + 0.02, name, ha="left", va="bottom", size=12.5, weight="bold")
    style.write(axes, 0.3, y - 0.05, says, ha="left", va="top", size=9.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    few, many = numbers["kept"]
    return [
        within(
            "growth of the kernel's error with the directions", cost_exponent(COUNTS, numbers["errors"]), -0.55, -0.45
        ),
        below(f"{MANY:,} directions against PyTorch's attention of unit q and k", numbers["fine"], 0.03),
        below("the layer against products of features, in brackets", numbers["brackets"], 1e-10),
        equal("numbers kept of 8 tokens: 2D (e + 1)", few, 2 * DRAWN * (WIDTH + 1)),
        equal("numbers kept of 64 tokens", many, few),
        below("a constant gate against a sum that decays", numbers["faded"], 1e-10),
    ]
