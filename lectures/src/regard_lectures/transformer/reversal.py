"""3.2b: reverse a sequence, with and without positions. An encoder without them is blind to order: it sees a bag.

Each sentence holds ten different letters in a random order; place i must say which letter stands at place 11 - i. Blind
to order, all nine other letters are equally likely, so no loss below log 9 can be had and no more than 1 in 9 is right.
One layer with one head, so that its map shows how the task is solved.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.embed import scaled_embedding
from regard.nn.feedforward import FeedForward
from regard.nn.positions import sinusoid
from regard.nn.residual import Branch, PreNorm
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, below, plain, seeded, starts_above, starts_below
from regard_lectures.toys import fit

TITLE = "Reversing a sequence, with and without positions"
DECKS = ("003", "001", "004")
CLAIM = "Without positions an encoder cannot beat chance at reversing a sequence; with them it reverses all of it."
EXPECTED = "Without positions an encoder can not beat chance at reversing a sequence."
FOUND = "At most 0.1121 are right without positions (chance: 0.1111) and all with them, in 3 starts."
COST = 25.0
SEED = 0

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LENGTH, DIM, STEPS, SEEDS = 10, 64, 300, 3
TESTS = 20000  # sentences
CHANCE = LENGTH - 1  # letters that a blind reader cannot tell apart


class Reader(nn.Module):
    """Embedding, one block, and a letter for each place; with positions or without."""

    def __init__(self, *, placed: bool) -> None:
        super().__init__()
        self.placed = placed
        self.embed = nn.Embedding(len(ALPHABET), DIM)
        nn.init.normal_(self.embed.weight, std=DIM**-0.5)
        residual = lambda: PreNorm(nn.LayerNorm(DIM), Branch(DIM))  # noqa: E731
        self.block = Block(MultiHeadAttention(DIM, 1), FeedForward(DIM, 2 * DIM), residual)
        self.out = nn.Linear(DIM, len(ALPHABET))

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, letters)"""
        x = scaled_embedding(self.embed, ids)
        if self.placed:
            x = x + sinusoid(torch.arange(ids.shape[1]), DIM)
        return self.out(self.block(x))


def shuffled(batch: int) -> Tensor:
    return torch.rand(batch, len(ALPHABET)).argsort(1)[:, :LENGTH]


@dataclass(frozen=True, eq=False)
class Run:
    model: Reader
    losses: list[float]


def train(seed: int, *, placed: bool) -> Run:
    with seeded(seed):
        model = Reader(placed=placed)

        def loss() -> Tensor:
            ids = shuffled(32)
            return F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())

        return Run(model, fit(model.parameters(), loss, steps=STEPS, rate=5e-3))


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, placed in (("with", True), ("without", False)):
        runs = [train(SEED + i, placed=placed) for i in range(SEEDS)]
        models = [run.model for run in runs]
        with seeded(SEED + 100), torch.no_grad():
            ids = shuffled(TESTS)
            right = [float((model(ids).argmax(-1) == ids.flip(1)).double().mean()) for model in models]
            losses = [float(F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())) for model in models]
            model = models[0]
            with capture(model, "*.weights") as seen:
                said = model(ids[:1]).argmax(-1)
            order = torch.randperm(LENGTH)
            moved = float((model(ids[:, order]) - model(ids)[:, order]).abs().max())
        numbers[name] = {
            "accuracy": right,
            "loss": losses,
            "curve": [float(f"{x:.4g}") for x in runs[0].losses[::3]],
            "map": plain(seen["block.mixer.weights"][0][0, 0], 2),
            "asked": ids[0].tolist(),
            "said": said[0].tolist(),
            "equivariance": moved,
        }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = "Left, learning to reverse ten letters. Right, the one attention map of each: who looks where."
    figure = style.page(TITLE, note, height=5.0)
    curves, blind, seeing = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
    for name, tint in (("without", style.SECOND), ("with", style.WEIGHT)):
        y = numbers[name]["curve"]
        curves.plot(range(0, STEPS, 3), y, color=tint)
    curves.axhline(math.log(CHANCE), color=style.EDGE, lw=1, ls=":")
    curves.text(STEPS, math.log(CHANCE) - 0.06, "log 9: chance", ha="right", va="top", size=10.5, color=style.SOFT)
    curves.text(STEPS, 2.62, "without positions", ha="right", color=style.SECOND, weight="bold")
    curves.text(STEPS, 0.14, "with positions", ha="right", color=style.WEIGHT, weight="bold")
    curves.set(title="loss", xlabel="step", ylim=(0, 3.5))
    curves.grid(axis="y")
    curves.spines["left"].set_visible(False)
    for axes, name in ((blind, "without"), (seeing, "with")):
        found = numbers[name]
        said, asked = ("".join(ALPHABET[i] for i in found[part]) for part in ("said", "asked"))
        style.heatmap(axes, found["map"], list(said), list(asked), size=9)
        for text, answer, wanted in zip(axes.get_yticklabels(), said, asked[::-1], strict=True):
            text.set_color(style.INK if answer == wanted else style.EDGE)
        right = sum(a == b for a, b in zip(said, asked[::-1], strict=True))
        axes.set_title(f"{name} positions", pad=26)
        axes.set_xlabel(f"top: read. left: said, {right} of {LENGTH} right", size=10)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    blind, seeing = numbers["without"], numbers["with"]
    pairs = TESTS * LENGTH / 2  # places i and 11 - i may be right together
    noise = 4 * math.sqrt(1 / CHANCE * (1 - 1 / CHANCE) / pairs)
    return [
        starts_below("without positions: right (1/9, four deviations)", blind["accuracy"], 1 / CHANCE + noise),
        starts_above("without positions: loss (log 9 = 2.197)", blind["loss"], math.log(CHANCE) - 1e-3),
        starts_above("with positions: right", seeing["accuracy"], 0.99),
        below("without positions, shuffled in is shuffled out: largest difference", blind["equivariance"], 1e-4),
        aside(above("with positions it is not", seeing["equivariance"], 1.0)),
    ]
