"""3.4b: training on one sentence at a time works with layer norm and fails with batch norm.

A small encoder reads twelve letters of four kinds and must say which occurs most often, from the mean over its words.
The last norm comes right before that mean. A batch norm makes each feature's mean over the batch zero: over a batch of
one, that is the very mean that is read, so the answer is the same for every sentence, and the loss stays at log 4. At
a batch of 32 it learns. (On a single word, PyTorch's batch norm refuses to train at all.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard.nn.residual import Branch, PreNorm
from regard_lectures.figure import Check, Numbers, aside, equal, seeded, starts_above, starts_below, starts_within
from regard_lectures.toys import fit
from regard_lectures.transformer.axes_normalised import BatchNorm

TITLE = "One sentence at a time"
DECKS = ("002", "003", "004", "001")
CLAIM = "With a batch of one, layer norm learns as it does with 32; batch norm learns nothing: the loss stays at log 4."
EXPECTED = "Training with a batch of one works with layer norm and fails with batch norm."
FOUND = (
    "With a batch of one layer norm is right in 98 % or more and batch norm in 25 to 27 % (chance: 25 %), in 3"
    " starts; its loss stays at log 4."
)
COST = 40.0
SEED = 0

KINDS, WORDS, DIM, STEPS, SEEDS = 4, 12, 32, 600, 3
CHANCE = math.log(KINDS)
BATCHES = [1, 32]
NORMS: dict[str, Callable[[], nn.Module]] = {"layer": lambda: nn.LayerNorm(DIM), "batch": lambda: BatchNorm(DIM)}


class Counter(nn.Module):
    """Letters -> which of them occurs most often, from the mean over all words."""

    def __init__(self, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(KINDS, DIM)
        self.block = Block(MultiHeadAttention(DIM, 2), FeedForward(DIM, 2 * DIM), lambda: PreNorm(norm(), Branch(DIM)))
        self.norm, self.out = norm(), nn.Linear(DIM, KINDS)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, kinds)"""
        answer: Tensor = self.out(self.norm(self.block(self.embed(ids))).mean(1))
        return answer


def sentences(batch: int) -> Tensor:
    """Random letters, of which one kind is more frequent."""
    often = torch.randint(KINDS, (batch, 1))
    return torch.where(torch.rand(batch, WORDS) < 0.4, often, torch.randint(KINDS, (batch, WORDS)))


def most(ids: Tensor) -> Tensor:
    """(b, n) -> (b,)"""
    return F.one_hot(ids, KINDS).sum(1).argmax(1)


@dataclass(frozen=True)
class Run:
    curve: list[float]  # the loss, mean of every 20 steps
    right: float  # share of fresh sentences that are answered rightly, in batches as in training


def train(norm: str, batch: int, seed: int) -> Run:
    with seeded(seed):
        model = Counter(NORMS[norm])

        def loss() -> Tensor:
            ids = sentences(batch)
            return F.cross_entropy(model(ids), most(ids))

        history = fit(model.parameters(), loss, steps=STEPS, rate=3e-3)
        ids = sentences(1000)
        with torch.no_grad():
            said = torch.cat([model(part).argmax(1) for part in ids.split(batch)])
    curve = [float(f"{sum(history[i : i + 20]) / 20:.4g}") for i in range(0, STEPS, 20)]
    return Run(curve, float((said == most(ids)).double().mean()))


def compute() -> Numbers:
    numbers: Numbers = {}
    for norm in NORMS:
        for batch in BATCHES:
            runs = [train(norm, batch, SEED + i) for i in range(SEEDS)]
            numbers[f"{norm} {batch}"] = {"curves": [run.curve for run in runs], "right": [run.right for run in runs]}
    numbers["refused"] = refuses()
    return numbers


def refuses() -> bool:
    """Whether PyTorch's batch norm refuses to normalise one word by itself in training."""
    try:
        BatchNorm(DIM)(torch.zeros(1, 1, DIM))
    except ValueError:
        return True
    return False


def draw(numbers: Numbers) -> Figure:
    note = f"Loss while learning which of {KINDS} letters is the most frequent in a sentence; {SEEDS} seeds each."
    figure = style.page(TITLE, note, height=4.9)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, batch in zip(panels, BATCHES, strict=True):
        for norm, tint in (("batch", style.SECOND), ("layer", style.WEIGHT)):
            found = numbers[f"{norm} {batch}"]
            for y in found["curves"]:
                axes.plot(range(10, STEPS, 20), y, color=tint, lw=1.6)
            right = sum(found["right"]) / SEEDS
            last = sum(y[-1] for y in found["curves"]) / SEEDS
            text = f"{norm} norm\n{style.percent(right)} right"
            style.end_label(axes, STEPS, last, text, tint, dy={"batch": 38, "layer": 18}[norm] if last < 1 else 0)
        axes.axhline(CHANCE, color=style.EDGE, lw=1, ls=":")
        axes.set(title=f"batch of {batch}", xlabel="step", ylim=(0, 1.75), xlim=(0, STEPS * 1.3))
        axes.set_xticks(range(0, STEPS + 1, 200))
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    panels[0].text(STEPS, CHANCE - 0.07, "log 4", ha="right", va="top", size=10.5, color=style.SOFT)
    return figure


def ends(found: Numbers) -> list[float]:
    """The loss over the last 100 steps, as a share of log 4."""
    return [sum(y[-5:]) / 5 / CHANCE for y in found["curves"]]


def checks(numbers: Numbers) -> list[Check]:
    alone = numbers["batch 1"]
    return [
        starts_below("layer norm, batch of 1: loss over log 4", ends(numbers["layer 1"]), 0.5),
        starts_above("layer norm, batch of 1: right", numbers["layer 1"]["right"], 0.8),
        starts_within("batch norm, batch of 1: loss over log 4", ends(alone), 0.97, 1.1),
        starts_below("batch norm, batch of 1: right (chance 0.25)", alone["right"], 0.3),
        aside(starts_below("batch norm, batch of 32: loss over log 4", ends(numbers["batch 32"]), 0.5)),
        aside(equal("one word by itself: batch norm refuses to train", numbers["refused"], True)),
    ]
