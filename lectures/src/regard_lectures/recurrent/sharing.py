"""1.4c: what sharing weights between steps is good for: deck 004's note on the difference to a feed-forward network.

The task is parity with a short memory: say whether the last two bits hold an odd number of ones. An RNN has one cell
for all steps; its rival has the same cell once for each step, with weights of its own. Both are trained on sequences of
ten bits and then given longer ones.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.recurrent import Recurrent, RNNCell, State
from regard_lectures.figure import Check, Numbers, aside, equal, in_starts, plain, seeded, starts_above
from regard_lectures.toys import fit

TITLE = "Shared weights know no length"
DECKS = ("004",)
CLAIM = (
    "An RNN trained on 10 steps is as good at 20 and 40; a net with weights for each step has none for the eleventh."
)
EXPECTED = (
    "On parity with a short memory an RNN generalises to twice the trained length; a net with weights for each step"
    " can not be applied there."
)
FOUND = "Trained on 10 steps the RNN is right at all of 40 places in 3 starts; the other net refuses step 11 in all 3."
COST = 10.0
SEED = 0

MEMORY, TRAINED, LONGEST, HIDDEN = 2, 10, 40, 24
STEPS, SEEDS, TESTED = 300, 3, 1000


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = Recurrent(RNNCell, 2, HIDDEN), nn.Linear(HIDDEN, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, 2) -> (b, n, 2)"""
        y: Tensor = self.head(self.rnn(x).outputs)
        return y


class Unshared(nn.Module):
    """The same equations, but each step has a cell and a head of its own."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(RNNCell(2, HIDDEN) for _ in range(length))
        self.heads = nn.ModuleList(nn.Linear(HIDDEN, 2) for _ in range(length))

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, 2) -> (b, n, 2)"""
        if x.shape[1] > len(self.cells):
            raise ValueError(f"there are weights for {len(self.cells)} steps; got {x.shape[1]}")
        state: State | None = None
        said = []
        for step, cell, head in zip(x.unbind(1), self.cells, self.heads, strict=False):
            state = cell(step, state)
            assert state is not None
            said.append(head(state["h"]))
        return torch.stack(said, 1)


def parity(bits: Tensor) -> Tensor:
    """(b, n) -> (b, n): whether the last few bits, as many as are remembered, hold an odd number of ones"""
    shifted = [F.pad(bits, (back, 0))[:, : bits.shape[1]] for back in range(MEMORY)]
    return torch.stack(shifted).sum(0) % 2


def train(model: nn.Module) -> None:
    def loss() -> Tensor:
        bits = torch.randint(2, (64, TRAINED))
        return F.cross_entropy(model(F.one_hot(bits, 2).float()).flatten(0, 1), parity(bits).flatten())

    fit(model.parameters(), loss, steps=STEPS, rate=0.01)


@torch.no_grad()
def right(model: nn.Module, length: int) -> Tensor:
    """The share of right answers at each place.  -> (n,)"""
    bits = torch.randint(2, (TESTED, length))
    return (model(F.one_hot(bits, 2).float()).argmax(-1) == parity(bits)).float().mean(0)


def compute() -> Numbers:
    numbers: Numbers = {"shared": [], "unshared": [], "refused": []}
    for seed in range(SEED, SEED + SEEDS):
        with seeded(seed):
            one, many = Shared(), Unshared(TRAINED)
            train(one)
            train(many)
            numbers["shared"].append(plain(right(one, LONGEST), 4))
            numbers["unshared"].append(plain(right(many, TRAINED), 4))
            try:
                right(many, TRAINED + 1)
                numbers["refused"].append("")
            except ValueError as error:
                numbers["refused"].append(str(error))
    numbers["weights"] = [sum(weight.numel() for weight in model.parameters()) for model in (one, many)]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"Right answers at each place of a sequence, {SEEDS} seeds each: are the last two bits different?"
    figure = style.page(TITLE, note, height=4.9)
    axes = figure.subplots()
    axes.axvspan(0, TRAINED + 0.5, color=style.SUNK, lw=0)
    axes.axhline(0.5, color=style.EDGE, lw=1, ls=":")
    for y in numbers["shared"]:
        axes.plot(range(1, LONGEST + 1), y, color=style.WEIGHT, lw=1.8)
    for y in numbers["unshared"]:
        axes.plot(range(1, TRAINED + 1), y, color=style.SECOND, lw=1.8, ls="--")
        axes.plot([TRAINED], [y[-1]], color=style.SECOND, marker="x", ms=9, mew=2.4)
    shared, unshared = numbers["weights"]
    says = f"one cell for all steps, {shared:,} weights"
    axes.text(LONGEST, 0.985, says, color=style.WEIGHT, weight="bold", ha="right", va="top")
    says = f"a cell for each step, {unshared:,} weights:\nthere is none for step {TRAINED + 1}"
    axes.text(TRAINED + 1, 0.86, says, color=style.SECOND, weight="bold", va="top", linespacing=1.5)
    axes.text(LONGEST, 0.51, "chance", color=style.SOFT, size=10.5, ha="right", va="bottom")
    axes.text(TRAINED / 2 + 0.25, 0.43, "trained", color=style.SOFT, size=10.5, ha="center", va="bottom")
    axes.set(xlabel="place", ylim=(0.42, 1.03), xlim=(0, LONGEST + 0.5), xticks=[1, 10, 20, 30, 40])
    axes.set_yticks([0.5, 0.75, 1], [style.percent(share) for share in (0.5, 0.75, 1)])
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    shared, unshared = numbers["shared"], numbers["unshared"]
    return [
        aside(starts_above("RNN, places 1 to 10: right answers", [sum(y[:10]) / 10 for y in shared], 0.99)),
        starts_above("RNN, places 11 to 20, never trained", [sum(y[10:20]) / 10 for y in shared], 0.99),
        starts_above("RNN, places 21 to 40", [sum(y[20:]) / 20 for y in shared], 0.99),
        aside(starts_above("a cell for each step, places 1 to 10", [sum(y) / 10 for y in unshared], 0.9)),
        in_starts("a cell for each step refuses step 11", [bool(said) for said in numbers["refused"]]),
        aside(
            equal("it has as many times the weights as steps", numbers["weights"][1], TRAINED * numbers["weights"][0])
        ),
    ]
