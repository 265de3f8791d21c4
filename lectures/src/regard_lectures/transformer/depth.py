"""3.3b: 24 layers with and without residual connections, on a task that one layer could do: copy each word.

The encoder is the Transformer's. Without residuals it is Admin's block with omega frozen at 0, norm(0 x + f(x)); with
them it is pre-norm. Two layers without residuals learn the task, so it is depth that defeats them: attention mixes
words, and without a path around it they become alike, layer by layer, before there is anything to learn from.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.transformer import Config, Transformer
from regard.nn.block import Block
from regard.nn.residual import Admin
from regard.nn.tap import capture
from regard_lectures.figure import (
    Check,
    Numbers,
    above,
    aside,
    below,
    equal,
    plain,
    seeded,
    starts_below,
    starts_within,
)
from regard_lectures.toys import fit

TITLE = "24 layers, with and without residuals"
DECKS = ("003", "001", "004", "002")
CLAIM = "Without residuals 24 layers cannot learn to copy: the loss stays at log V; with them they learn it at once."
EXPECTED = "Without residuals 24 layers can not learn to copy: the loss stays at log V."
FOUND = (
    "Without residuals the loss ends at 1.000 to 1.002 log V in 3 starts, with them below 0.005; two layers without"
    " them learn, down to 0.29."
)
COST = 45.0
SEED = 0

WORDS, LENGTH, BATCH = 16, 8, 16
DEEP, SHALLOW, STEPS, SEEDS = 24, 2, 100, 3
CHANCE = math.log(WORDS)


def build(kind: Literal["with", "without"], depth: int) -> Transformer:
    sizes = {"vocab": WORDS, "dim": 64, "depth": depth, "decoder_depth": 1, "heads": 4, "hidden": 128}
    model = Transformer(Config(**sizes, dropout=0.0, norm="pre" if kind == "with" else "admin"))  # type: ignore[arg-type]
    for module in model.encoder.modules():
        if isinstance(module, Admin):
            nn.init.zeros_(module.omega).requires_grad_(False)
    return model


def read(model: Transformer, words: Tensor) -> Tensor:
    """(b, n) -> (b, n, v), by the encoder alone"""
    return F.linear(model.encode(words), model.embed.weight)


def train(kind: Literal["with", "without"], depth: int, seed: int) -> list[float]:
    with seeded(seed):
        model = build(kind, depth)

        def loss() -> Tensor:
            words = torch.randint(WORDS, (BATCH, LENGTH))
            return F.cross_entropy(read(model, words).flatten(0, 1), words.flatten())

        trained = [weight for weight in (*model.encoder.parameters(), model.embed.weight) if weight.requires_grad]
        return fit(trained, loss, steps=STEPS, rate=1e-3)


@torch.no_grad()
def distinct(kind: Literal["with", "without"]) -> list[float]:
    """Before training, after each layer: how far words are from their sentence's mean, as a share of their size."""
    with seeded(SEED):
        model, words = build(kind, DEEP), torch.randint(WORDS, (BATCH, LENGTH))
    with capture(model.encoder, "*.stream") as seen:
        model.encode(words)
    layers = [calls[0] for calls in seen.values()]
    return [float(f"{float((x - x.mean(1, keepdim=True)).norm() / x.norm()):.3g}") for x in layers]


def identity() -> list[float]:
    """The smallest and the largest slope of an output by its own input through 24 blocks whose branches are 0."""
    with seeded(SEED):
        model, x = build("with", DEEP), torch.randn(1, LENGTH, 64, requires_grad=True)
    for block in model.encoder:
        assert isinstance(block, Block)
        for last in (block.mixer.out, block.ffn.down):
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
    y = x
    for block in model.encoder:
        y = block(y)
    (slope,) = torch.autograd.grad(y.sum(), x)
    return [float(slope.min()), float(slope.max())]


def compute() -> Numbers:
    seeds = range(SEED, SEED + SEEDS)
    return {
        "with": [[float(f"{x:.4g}") for x in train("with", DEEP, seed)[::4]] for seed in seeds],
        "without": [[float(f"{x:.4g}") for x in train("without", DEEP, seed)[::4]] for seed in seeds],
        "shallow": plain(torch.tensor(train("without", SHALLOW, SEED)[::4]), 4),
        "distinct": {"with": distinct("with"), "without": distinct("without")},
        "identity": identity(),
    }


def draw(numbers: Numbers) -> Figure:
    note = f"Left, learning to copy {WORDS} words. Right, why: before training, words become alike layer by layer."
    figure = style.page(TITLE, note, height=4.9)
    left, right = figure.subplots(1, 2)
    steps = range(0, STEPS, 4)
    for kind, tint in (("without", style.SECOND), ("with", style.WEIGHT)):
        for y in numbers[kind]:
            left.plot(steps, y, color=tint, lw=1.8)
        right.plot(range(1, DEEP + 1), numbers["distinct"][kind], color=tint, marker="o", ms=4)
    left.plot(steps, numbers["shallow"], color=style.SECOND, lw=1.4, ls="--")
    left.axhline(CHANCE, color=style.EDGE, lw=1, ls=":")
    left.text(STEPS, CHANCE + 0.07, "24 layers without", ha="right", va="bottom", color=style.SECOND, weight="bold")
    left.text(STEPS, 0.1, "24 layers with", ha="right", va="bottom", color=style.WEIGHT, weight="bold")
    left.annotate(
        "2 layers without",
        (STEPS * 0.45, numbers["shallow"][len(steps) * 45 // 100]),
        (12, 8),
        textcoords="offset points",
        color=style.SECOND,
    )
    left.text(STEPS, CHANCE - 0.06, "log V", ha="right", va="top", size=10.5, color=style.SOFT)
    left.set(title="loss", xlabel="step", ylim=(0, 3.6))
    right.set_yscale("log")
    right.set(title="what tells words apart, as a share of their size", xlabel="layer", xticks=[1, 6, 12, 18, 24])
    right.text(DEEP, 0.45, "with", ha="right", color=style.WEIGHT, weight="bold")
    right.text(DEEP, 6e-7, "without: only rounding is left", ha="right", color=style.SECOND, weight="bold")
    right.minorticks_off()
    for axes in (left, right):
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    ends = {kind: [sum(y[-5:]) / 5 / CHANCE for y in numbers[kind]] for kind in ("with", "without")}
    low, high = numbers["identity"]
    return [
        starts_within("24 layers without: last loss over log V", ends["without"], 0.97, 1.03),
        starts_below("24 layers with: last loss over log V", ends["with"], 0.05),
        aside(below("2 layers without: last loss over log V", sum(numbers["shallow"][-5:]) / 5 / CHANCE, 0.5)),
        equal("branches that say nothing: smallest slope through 24 blocks", low, 1.0),
        equal("branches that say nothing: largest slope through 24 blocks", high, 1.0),
        aside(below("without: what tells words apart after 24 layers", numbers["distinct"]["without"][-1], 0.01)),
        aside(above("with: what tells words apart after 24 layers", numbers["distinct"]["with"][-1], 0.1)),
    ]
