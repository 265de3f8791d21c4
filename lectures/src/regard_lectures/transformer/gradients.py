"""3.5b: the gradient of each layer before training, for 6, 12 and 18 layers: Xiong et al. (2020), section 3.3.

The layers are those of the decoder of a Transformer with as many encoder layers; the gradient is that of the last
matrix of the feed-forward, W_2, under the cross entropy of random words, each entry root mean square over seeds. The
theory: post-norm, the last layer's does not depend on the depth L; pre-norm, it falls as 1 / sqrt(L).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import cost_exponent
from regard.models.transformer import Config, Transformer
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded, within

TITLE = "The gradient of each layer at the start"
DECKS = ("002",)
CLAIM = (
    "Post-norm, the last layer's gradient is as large for 18 layers as for 6; pre-norm, it falls as 1/√L and is even."
)
EXPECTED = (
    "At the start, the gradient of the last layer does not depend on the depth L with post-norm, and falls as L^-1/2"
    " with pre-norm."
)
FOUND = (
    "From 6 to 18 layers it grows to 1.045 times with post-norm and has the exponent -0.52 with pre-norm (means of 4"
    " starts)."
)
COST = 5.0
SEED = 0

DEPTHS = [6, 12, 18]
SEEDS = 4
KINDS: tuple[Literal["post", "pre"], ...] = ("post", "pre")


def compute() -> Numbers:
    numbers: Numbers = {"depths": DEPTHS}
    for kind in KINDS:
        numbers[kind] = [plain(torch.tensor(slopes(kind, depth)), 4) for depth in DEPTHS]
    return numbers


def slopes(placement: Literal["post", "pre"], depth: int) -> list[float]:
    """The gradient of W_2 in every decoder layer, first to last."""
    squares = torch.zeros(depth)
    for seed in range(SEED, SEED + SEEDS):
        with seeded(seed):
            config = Config(vocab=64, dim=64, depth=depth, heads=4, hidden=128, dropout=0.0, norm=placement)
            model = Transformer(config)
            source, target, wanted = torch.randint(64, (3, 16, 12))
            F.cross_entropy(model(source, target).flatten(0, 1), wanted.flatten()).backward()
        for i, block in enumerate(model.decoder):
            assert isinstance(block, Block)
            assert isinstance(block.ffn, FeedForward)
            assert block.ffn.down.weight.grad is not None
            squares[i] += block.ffn.down.weight.grad.square().sum() / SEEDS
    return squares.sqrt().tolist()


def draw(numbers: Numbers) -> Figure:
    note = (
        "Norm of the gradient of $W_2$ in every decoder layer, before the first step; Transformers of 6, 12, 18 layers."
    )
    figure = style.page(TITLE, note, height=4.9)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind, tint in zip(panels, KINDS, (style.SECOND, style.WEIGHT), strict=True):
        for depth, y in zip(numbers["depths"], numbers[kind], strict=True):
            shade = style.mix(tint, 0.4 + 0.6 * depth / DEPTHS[-1])
            axes.plot(range(1, depth + 1), y, color=shade, marker="o", ms=4)
            text = f"{depth} layers" if depth == DEPTHS[0] else f"{depth}"
            axes.annotate(text, (depth, y[-1]), (0, 8), textcoords="offset points", ha="center", color=shade)
        axes.set(title=f"{kind}-norm", xlabel="layer", xticks=[1, 6, 12, 18], ylim=(0, None))
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    panels[0].set_ylim(0, 1.18 * max(max(y) for kind in KINDS for y in numbers[kind]))
    return figure


def checks(numbers: Numbers) -> list[Check]:
    depths, last = numbers["depths"], {kind: [y[-1] for y in numbers[kind]] for kind in KINDS}
    deepest = {kind: numbers[kind][-1] for kind in KINDS}
    return [
        within("post: last layer's gradient, 18 layers over 6", last["post"][-1] / last["post"][0], 0.8, 1.25),
        within(
            "pre: exponent of the last layer's gradient by depth (theory -1/2)",
            cost_exponent(depths, last["pre"]),
            -0.7,
            -0.3,
        ),
        above("18 layers: post over pre, last layer", last["post"][-1] / last["pre"][-1], math.sqrt(18) / 2),
        above("post, 18 layers: last over first", deepest["post"][-1] / deepest["post"][0], 2),
        below("pre, 18 layers: largest over smallest", max(deepest["pre"]) / min(deepest["pre"]), 3),
    ]
