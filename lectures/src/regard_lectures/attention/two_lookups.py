"""2.5d: why several heads. To name the word on the left and the word on the right takes two look-ups at once.

One layer of attention, with learned positions, and a linear read-out for each of the two words. One head of width 32
and two of width 16 have the same number of parameters; the single head must average what it finds.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.positions import Learned
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, equal, plain, seeded, starts_above
from regard_lectures.toys import fit

TITLE = "Two look-ups need two heads"
DECKS = ("001", "002", "003", "004")
CLAIM = "At equal parameters, one head copies the words to the left and to the right less well than two heads do."
EXPECTED = "At equal parameters, one head copies the words to the left and to the right less well than two heads do."
FOUND = "One head names 0.53 of the words and two heads all of them, in all of 3 starts: a lead of 0.46 to 0.47."
COST = 7.6
SEED = 0

WORDS, LENGTH, WIDTH = 16, 8, 32


class Copier(nn.Module):
    """Says, at every place, the words at some offsets from it."""

    def __init__(self, heads: int, offsets: tuple[int, ...] = (-1, 1), length: int = LENGTH, dim: int = WIDTH) -> None:
        super().__init__()
        self.offsets = offsets
        self.words, self.positions = nn.Embedding(WORDS, dim), Learned(length, dim)
        self.attention = MultiHeadAttention(dim, heads)
        self.readout = nn.Linear(dim, len(offsets) * WORDS)
        nn.init.normal_(self.positions.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, offsets, words)"""
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        said: Tensor = self.readout(self.attention(x))
        return said.unflatten(-1, (len(self.offsets), WORDS))

    def targets(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, offsets): sentences are rings, so that every place has all its neighbours"""
        return torch.stack([ids.roll(-offset, 1) for offset in self.offsets], -1)


def train(model: Copier, length: int, *, steps: int, rate: float = 0.01) -> None:
    def loss() -> Tensor:
        ids = torch.randint(WORDS, (64, length))
        return F.cross_entropy(model(ids).flatten(0, 2), model.targets(ids).flatten())

    fit(model.parameters(), loss, steps=steps, rate=rate)


@torch.no_grad()
def accuracy(model: Copier, length: int) -> list[float]:
    """How often each of the words is right, on new sentences."""
    ids = torch.randint(WORDS, (1000, length))
    right = model(ids).argmax(-1) == model.targets(ids)
    found: list[float] = plain(right.float().mean((0, 1)))
    return found


@torch.no_grad()
def maps(model: Copier, length: int) -> Tensor:
    """The mean map of every head over new sentences, (h, n, n)."""
    with capture(model, "attention.weights") as seen:
        model(torch.randint(WORDS, (200, length)))
    return seen["attention.weights"][0].mean(0)


def compute() -> Numbers:
    numbers: Numbers = {"accuracy": {"1": [], "2": []}, "maps": {}, "parameters": {}}
    for seed in range(SEED, SEED + 3):
        for heads in (1, 2):
            with seeded(seed):
                model = Copier(heads)
                train(model, LENGTH, steps=400)
                numbers["accuracy"][str(heads)].append(accuracy(model, LENGTH))
                if seed == SEED:
                    numbers["maps"][str(heads)] = plain(maps(model, LENGTH), 3)
                    numbers["parameters"][str(heads)] = sum(parameter.numel() for parameter in model.parameters())
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = "Say the word on the left and the word on the right. Both models have the same number of parameters."
    figure = style.page(TITLE, note, height=4.9)
    bars, *panels = figure.subplots(1, 4, width_ratios=(1.6, 1, 1, 1))
    for i, (heads, tint) in enumerate((("1", style.SECOND), ("2", style.WEIGHT))):
        means = [sum(run[side] for run in numbers["accuracy"][heads]) / 3 for side in (0, 1)]
        bars.bar([i - 0.22, i + 0.22], means, width=0.38, color=[tint, style.mix(tint, 0.6)])
        for x, side, mean in ((i - 0.22, "left", means[0]), (i + 0.22, "right", means[1])):
            style.write(bars, x, mean + 0.035, style.percent(mean), size=9.5)
            style.write(bars, x, 0.04, side, size=10.5, color="white")
    bars.set(xlim=(-0.55, 1.55), ylim=(0, 1.15), yticks=[], title="words right, mean of 3 seeds")
    bars.set_xticks([0, 1], ["one head", "two heads"])
    bars.spines[["left"]].set_visible(False)
    titles = ["the one head", "head 0 of 2", "head 1 of 2"]
    for axes, title, table in zip(panels, titles, (*numbers["maps"]["1"], *numbers["maps"]["2"]), strict=True):
        style.heatmap(axes, table)
        axes.set_title(title)
        axes.set(xlabel="key", ylabel="query")
        axes.xaxis.set_label_position("bottom")
    style.scale(figure, panels, label="mean weight")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    one, two = ([sum(run) / 2 for run in numbers["accuracy"][heads]] for heads in ("1", "2"))
    return [
        aside(equal("parameters of both models", numbers["parameters"]["1"], numbers["parameters"]["2"])),
        starts_above("lead of two heads over one", [b - a for a, b in zip(one, two, strict=True)], 0),
        above("two heads, worst of 3 seeds, minus one head, best of 3", min(two) - max(one), 0),
    ]
