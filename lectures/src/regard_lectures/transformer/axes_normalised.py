"""3.4: which numbers share a mean and a variance (deck 002's LayerNorm slide, Ba et al. 2016).

A batch is a cube: sentences, words, features. The cubes are coloured by measurement: lit is every input on which one
output depends, in PyTorch's LayerNorm and BatchNorm1d. A layer norm looks at one word of one sentence; a batch norm at
one feature of all words of all sentences, so what it does to a sentence depends on the others in the batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from torch import Tensor, nn

from regard import style
from regard.nn.norm import build_norm
from regard_lectures.figure import Check, Numbers, above, below, equal, seeded

TITLE = "What is normalised together"
DECKS = ("002", "003", "004", "001")
CLAIM = (
    "A layer norm takes its mean and variance over the features of one word; a batch norm over the batch, by feature."
)
EXPECTED = (
    "Layer norm takes its mean and variance over the features of one word, batch norm over the batch by feature;"
    " LN(ax + c) = LN(x)."
)
FOUND = (
    "The outputs depend on exactly these inputs; mean 0, variance 1 and the invariance hold to 1e-15; other sentences"
    " change a batch norm’s output by 0.69."
)
COST = 0.2
SEED = 0

SENTENCES, WORDS, FEATURES = 4, 5, 6
KINDS = {"batch": "batch norm", "layer": "layer norm"}


class BatchNorm(nn.Module):
    """PyTorch's batch norm for (b, n, d): over all words of all sentences."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dim, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.mT).mT
        return y


def compute() -> Numbers:
    with seeded(SEED):
        x = torch.randn(SENTENCES, WORDS, FEATURES, dtype=torch.float64)
        norms = {"batch": BatchNorm(FEATURES, 1e-15).double(), "layer": build_norm("layer", FEATURES, 0.0).double()}
        numbers: Numbers = {"lit": {}, "others": {}}
        for name, norm in norms.items():
            slopes = torch.autograd.functional.jacobian(lambda x, norm=norm: norm(x)[0, 0, -1], x)
            numbers["lit"][name] = (slopes.abs() > 1e-12).int().tolist()
            other = x.clone()
            other[1:] = torch.randn_like(other[1:])
            numbers["others"][name] = float((norm(other) - norm(x))[0].abs().max().detach())
        layer, by_batch = norms["layer"](x), norms["batch"](x)
        root = build_norm("rms", FEATURES, 0.0).double()
        numbers |= {
            "mean": float(layer.mean(-1).abs().max().detach()),
            "variance": float((layer.var(-1, unbiased=False) - 1).abs().max().detach()),
            "batch_mean": float(by_batch.mean((0, 1)).abs().max().detach()),
            "scaled": float((norms["layer"](3 * x + 7) - layer).abs().max().detach()),
            "root": float((root(x) - x / x.square().mean(-1, keepdim=True).sqrt()).abs().max().detach()),
        }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = "Lit: the inputs on which one output, outlined, depends. They share one mean and one variance."
    figure = style.page(TITLE, note, height=5.2)
    axes = style.stage(figure)
    says = {"batch": "one feature of all words of all sentences", "layer": "all features of one word of one sentence"}
    for x, (name, title) in zip((0.5, 5.35), KINDS.items(), strict=True):
        style.write(axes, x - 0.15, 3.8, title, ha="left", va="baseline", size=13, weight="bold")
        style.write(axes, x - 0.15, 3.52, says[name], ha="left", va="baseline", size=11, color=style.SOFT)
        cube(axes, x + 0.35, 0.5, numbers["lit"][name])
    return figure


def cube(axes: Axes, x: float, y: float, lit: list[list[list[int]]]) -> None:
    """Features across, words upwards, sentences into the depth; lower front left corner at (x, y)."""
    right, up, back = (0.42, 0.0), (0.0, 0.36), (0.26, 0.16)

    def place(feature: float, word: float, sentence: float) -> tuple[float, float]:
        steps = ((right, feature), (up, word), (back, sentence))
        return x + sum(step[0] * count for step, count in steps), y + sum(step[1] * count for step, count in steps)

    def face(corners: Sequence[tuple[float, float, float]], on: int, shade: float) -> None:
        fill = style.mix(style.WEIGHT, shade) if on else style.mix(style.SOFT, 0.04 + 0.07 * (1 - shade))
        axes.add_patch(
            Polygon([place(*c) for c in corners], fc=fill, ec="white" if on else style.LINE, lw=1.2, zorder=3)
        )

    last, top = FEATURES - 1, WORDS - 1
    for w in range(WORDS):
        row = WORDS - 1 - w  # the first word is at the top
        for f in range(FEATURES):
            face([(f, row, 0), (f + 1, row, 0), (f + 1, row + 1, 0), (f, row + 1, 0)], lit[0][w][f], 0.75)
        for s in range(SENTENCES):
            corners = [(FEATURES, row, s), (FEATURES, row, s + 1), (FEATURES, row + 1, s + 1), (FEATURES, row + 1, s)]
            face(corners, lit[s][w][last], 0.9)
    for s in range(SENTENCES):
        for f in range(FEATURES):
            face([(f, WORDS, s), (f + 1, WORDS, s), (f + 1, WORDS, s + 1), (f, WORDS, s + 1)], lit[s][0][f], 0.6)
    corners = [(last, top, 0), (FEATURES, top, 0), (FEATURES, WORDS, 0), (last, WORDS, 0)]
    axes.add_patch(Polygon([place(*c) for c in corners], fill=False, ec=style.INK, lw=2.2, zorder=5))
    small: dict[str, Any] = {"size": 10.5, "color": style.SOFT}
    style.write(axes, *place(FEATURES / 2, -0.5, 0), "features", **small)
    style.write(axes, *place(-0.4, WORDS / 2, 0), "words", rotation=90, **small)
    style.write(axes, *place(FEATURES + 0.55, -0.45, SENTENCES / 2), "sentences", rotation=31, **small)


def checks(numbers: Numbers) -> list[Check]:
    lit = {name: torch.tensor(numbers["lit"][name]) for name in KINDS}
    own, column = torch.zeros_like(lit["layer"]), torch.zeros_like(lit["batch"])
    own[0, 0], column[:, :, -1] = 1, 1
    return [
        equal(
            "layer norm: one output depends on its own word’s features and on nothing else",
            bool((lit["layer"] == own).all()),
            True,
        ),
        equal(
            "batch norm: one output depends on its own feature everywhere and on nothing else",
            bool((lit["batch"] == column).all()),
            True,
        ),
        equal("layer norm: other sentences change a sentence by", numbers["others"]["layer"], 0.0),
        above("batch norm: other sentences change a sentence by", numbers["others"]["batch"], 0.1),
        below("layer norm: mean of a word", numbers["mean"], 1e-12),
        below("layer norm: variance of a word (biased) minus 1", numbers["variance"], 1e-12),
        below("batch norm: mean of a feature", numbers["batch_mean"], 1e-12),
        below("LN(3 x + 7) = LN(x), without eps", numbers["scaled"], 1e-12),
        below("RMS norm is x / sqrt(mean(x^2))", numbers["root"], 1e-12),
    ]
