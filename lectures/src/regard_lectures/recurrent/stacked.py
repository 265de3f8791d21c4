"""1.4d: one, two and three layers with equally many weights, learning to foretell the next letter.

The text is the documentation that comes with Python (pydoc_data.topics, 465,000 letters), its last tenth held out. The
spec sheet names the experiment and no winner; in 800 steps of a tanh RNN with 60,000 weights one and two layers are
alike, and a third, which makes them all narrower, is a little worse. LSTMs of 100,000 weights differed more, in 500
steps: 2.4, 2.7 and 3.9 bits, for deep ones begin to learn later.
"""

import math
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import Recurrent, RNNCell
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above, starts_below

TITLE = "Deeper, with as many weights"
DECKS = ("004",)
CLAIM = "With equally many weights, one, two and three layers foretell letters about equally well; none is far ahead."
EXPECTED = (
    "No winner among one, two and three layers of equally many weights was foretold; that they differ by less than"
    " 0.3 bits a letter was written down with the run, not before it."
)
FOUND = (
    "2.179, 2.157 and 2.226 bits for one, two and three layers, means of 3 starts, in each of which they differ by at "
    "most 0.085."
)
COST = 97.0
SEED = 0

DEPTHS, WEIGHTS, DIM = (1, 2, 3), 60_000, 32
STEPS, BATCH, LENGTH, RATE, SEEDS = 800, 32, 64, 3e-3, 3
EVERY = 20


class Letters(nn.Module):
    def __init__(self, letters: int, depth: int, hidden: int) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(letters, DIM), Recurrent(RNNCell, DIM, hidden, depth)
        self.head = nn.Linear(hidden, letters)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, letters)"""
        logits: Tensor = self.head(self.rnn(self.embed(ids)).outputs)
        return logits

    def bits(self, ids: Tensor) -> Tensor:
        """Of a letter, on average, each foretold from those before it.  (b, n + 1)"""
        return F.cross_entropy(self(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()) / math.log(2)


def size(letters: int, depth: int, hidden: int) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in Letters(letters, depth, hidden).parameters())


def widest(letters: int, depth: int) -> int:
    """The width at which all weights together are just not too many."""
    hidden = 1
    while size(letters, depth, hidden + 1) <= WEIGHTS:
        hidden += 1
    return hidden


def learn(ids: Tensor, held_out: Tensor, letters: int, depth: int, seed: int) -> tuple[list[float], float]:
    """-> the bits of training, smoothed; the bits of what was held out"""
    with seeded(seed):
        model = Letters(letters, depth, widest(letters, depth))
        optimizer = torch.optim.Adam(model.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        history = []
        for _ in range(STEPS):
            starts = torch.randint(len(ids) - LENGTH, (BATCH, 1))
            loss = model.bits(ids[starts + torch.arange(LENGTH + 1)])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            history.append(loss.item())
        with torch.no_grad():
            found = float(model.bits(held_out))
    means = [sum(history[i : i + EVERY]) / EVERY for i in range(0, STEPS, EVERY)]
    return [float(f"{value:.4g}") for value in means], float(f"{found:.4g}")


def pairs(ids: Tensor, held_out: Tensor, letters: int) -> float:
    """The bits of who knows how often each letter follows each other one, counted, with one added to each count."""
    counts = torch.ones(letters, letters)
    counts.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
    chances = counts / counts.sum(1, keepdim=True)
    return float(f"{float(-chances[held_out[:, :-1], held_out[:, 1:]].log2().mean()):.4g}")


def compute() -> Numbers:
    text = "\n".join(topics[name] for name in sorted(topics))
    alphabet = {letter: i for i, letter in enumerate(sorted(set(text)))}
    ids = torch.tensor([alphabet[letter] for letter in text])
    cut = len(ids) * 9 // 10
    rows = (len(ids) - cut) // 257
    train, held_out, letters = ids[:cut], ids[cut : cut + rows * 257].view(rows, 257), len(alphabet)
    numbers: Numbers = {"letters": letters, "pairs": pairs(train, held_out, letters)}
    for depth in DEPTHS:
        hidden = widest(letters, depth)
        runs = [learn(train, held_out, letters, depth, seed) for seed in range(SEED, SEED + SEEDS)]
        numbers[str(depth)] = {"hidden": hidden, "weights": size(letters, depth, hidden)}
        numbers[str(depth)] |= {"curves": [curve for curve, _ in runs], "bits": [bits for _, bits in runs]}
    return numbers


TOP = 5.3  # bits: both panels have the same scale
TINTS = {"1": style.SECOND, "2": style.WEIGHT, "3": style.INK}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Bits to tell the next letter, tanh RNNs, {SEEDS} seeds each. Left, in training; right, of text held out:\n"
        "their mean, and in a bar each of them."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    for depth, tint in TINTS.items():
        for y in numbers[depth]["curves"]:
            left.plot([EVERY * (i + 0.5) for i in range(len(y))], y, color=tint, lw=1.7)
    left.set(xlabel="step", ylim=(0, TOP), xlim=(0, STEPS), yticks=range(6))
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    for i, (depth, tint) in enumerate(TINTS.items()):
        said = f"{depth} layer{'s' if i else ''} of {numbers[depth]['hidden']}"
        left.text(STEPS, 4.72 - 0.37 * i, said, color=tint, weight="bold", ha="right")
    heights = [sum(numbers[depth]["bits"]) / SEEDS for depth in TINTS]
    labels = ["1 layer", "2 layers", "3 layers", "pairs of\nletters"]
    tints = [*TINTS.values(), style.EDGE]
    style.bars(right, labels, [*heights, numbers["pairs"]], color=tints, form="{:.2f}".format, top=TOP)
    for i, depth in enumerate(TINTS):
        each = "\n".join(f"{bits:.2f}" for bits in numbers[depth]["bits"])
        right.text(i, heights[i] - 0.1, each, color="white", size=10, ha="center", va="top")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    bits = [numbers[str(depth)]["bits"] for depth in DEPTHS]
    weights = [numbers[str(depth)]["weights"] for depth in DEPTHS]
    apart = [max(start) - min(start) for start in zip(*bits, strict=True)]
    return [
        aside(above("weights, fewest over most", min(weights) / max(weights), 0.99)),
        aside(starts_below("held-out bits, worst depth over best", apart, 0.3)),  # a bound that is as old as the run
        aside(
            starts_above(
                "bits below those of pairs of letters, worst depth",
                [numbers["pairs"] - max(start) for start in zip(*bits, strict=True)],
                0.5,
            )
        ),
    ]
