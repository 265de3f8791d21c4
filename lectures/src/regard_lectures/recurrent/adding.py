"""1.8b: the adding task (Hochreiter and Schmidhuber, 1997): of 20 to 200 numbers two are marked, one in each half; say
their sum. Whoever always says 1, the mean of all sums, has a squared error of 1/6.

All nets are 32 wide and learn by Adam at 0.01 from 32 new sequences a step, gradients clipped to norm 1, for at most
2,000 steps; a run ends when the mean error of 50 steps is below 0.01. The LSTM's forget bias starts at 3: with 1 it
solved all lengths but 200 in as many steps. At half the rate and twice the width the tanh RNN was no better: 0.18 at
100 numbers after 1,500 steps.
"""

from functools import partial

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import GRUCell, Kind, LSTMCell, Recurrent, RNNCell
from regard_lectures.figure import Check, Numbers, seeded, starts_above, starts_below

TITLE = "The adding task: gates remember"
DECKS = ("004", "002")
CLAIM = "LSTM and GRU learn to add two numbers up to 200 steps apart; from 100 on the tanh RNN stays at chance."
EXPECTED = "On the adding task, LSTM and GRU solve lengths at which the tanh RNN stays at chance."
FOUND = (
    "At 100 and 200 numbers the tanh RNN’s squared error is 0.171 to 0.190 (chance: 0.167); LSTM and GRU stay below "
    "0.01 at all lengths, in each of 3 starts."
)
COST = 121.0
SEED = 0

LENGTHS, WIDTH, BATCH, RATE, CLIP = [20, 50, 100, 200], 32, 32, 1e-2, 1.0
STEPS, SOLVED, SPAN, SEEDS = 2000, 0.01, 50, 3
CHANCE = 1 / 6
KINDS: dict[str, Kind] = {"tanh": RNNCell, "GRU": GRUCell, "LSTM": partial(LSTMCell, forget=3.0)}


class Adder(nn.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.rnn, self.head = Recurrent(kind, 2, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, 2) -> (b,)"""
        y: Tensor = self.head(self.rnn(x).outputs[:, -1])[:, 0]
        return y


def sums(length: int) -> tuple[Tensor, Tensor]:
    """Numbers beside their marks, and what the two marked ones add up to.  -> (b, n, 2), (b,)"""
    numbers, marks, rows = torch.rand(BATCH, length), torch.zeros(BATCH, length), torch.arange(BATCH)
    for first in (0, length // 2):
        marks[rows, torch.randint(first, first + length // 2, (BATCH,))] = 1.0
    return torch.stack((numbers, marks), -1), (numbers * marks).sum(1)


def learn(kind: Kind, length: int, seed: int) -> list[float]:
    """The error at every step."""
    with seeded(seed):
        model = Adder(kind)
        optimizer = torch.optim.Adam(model.parameters(), RATE)
        history: list[float] = []
        while len(history) < STEPS and (len(history) < SPAN or last(history) >= SOLVED):
            x, wanted = sums(length)
            loss = F.mse_loss(model(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            history.append(loss.item())
    return history


def last(history: list[float]) -> float:
    return sum(history[-SPAN:]) / SPAN


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, kind in KINDS.items():
        runs = [[learn(kind, length, seed) for length in LENGTHS] for seed in range(SEED, SEED + SEEDS)]
        numbers[name] = {
            "errors": [[float(f"{last(run):.4g}") for run in lengths] for lengths in runs],
            "steps": [[len(run) for run in lengths] for lengths in runs],
            "longest": [smooth(lengths[-1]) for lengths in runs],
        }
    return numbers


def smooth(history: list[float], width: int = 25) -> list[float]:
    """Means of so many steps each."""
    return [float(f"{sum(history[i : i + width]) / width:.3g}") for i in range(0, len(history) - width + 1, width)]


def draw(numbers: Numbers) -> Figure:
    note = f"Squared error, {SEEDS} seeds each. Left, after at most {STEPS:,} steps; right, learning with 200 numbers."
    figure = style.page(TITLE, note, height=5.0)
    left, right = figure.subplots(1, 2)
    tints = {"tanh": style.INK, "GRU": style.KEY, "LSTM": style.WEIGHT}
    for name, tint in tints.items():
        for errors in numbers[name]["errors"]:
            left.plot(range(len(LENGTHS)), errors, color=tint, marker="o", lw=1.8)
        for curve in numbers[name]["longest"]:
            right.plot([25 * i + 13 for i in range(len(curve))], curve, color=tint, lw=1.8)
    left.text(3, 0.195, "tanh", color=tints["tanh"], weight="bold", ha="right")
    left.text(3, 0.022, "GRU and LSTM", color=tints["LSTM"], weight="bold", ha="right")
    left.text(3.35, CHANCE - 0.003, "always the mean", color=style.SOFT, size=10.5, va="top", ha="right")
    right.text(STEPS, 0.2, "tanh", color=tints["tanh"], weight="bold", ha="right")
    for name, side in (("GRU", "left"), ("LSTM", "right")):
        ends = [25 * len(curve) for curve in numbers[name]["longest"]]
        x = max(ends) + 40 if side == "left" else min(ends) - 110
        right.text(x, 0.06, name, color=tints[name], weight="bold", ha=side)
    for axes in (left, right):
        axes.axhline(CHANCE, color=style.EDGE, lw=1, ls=":")
        axes.set(ylim=(0, 0.25), yticks=[0, 0.1, 0.2])
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    left.set(xlabel="numbers in a sequence", xlim=(-0.25, 3.4))
    left.set_xticks(range(len(LENGTHS)), list(map(str, LENGTHS)))
    right.set(xlabel="step", xlim=(0, STEPS), xticks=range(0, STEPS + 1, 500))
    return figure


def checks(numbers: Numbers) -> list[Check]:
    def errors(name: str, long: int) -> list[float]:
        return [start[LENGTHS.index(long)] for start in numbers[name]["errors"]]

    checks = [starts_above(f"tanh, {length} numbers: error", errors("tanh", length), 0.15) for length in LENGTHS[2:]]
    for name in ("GRU", "LSTM"):
        checks += [starts_below(f"{name}, {length} numbers: error", errors(name, length), 0.02) for length in LENGTHS]
    return checks
