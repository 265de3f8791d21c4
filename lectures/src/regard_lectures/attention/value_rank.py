"""2.5c: what the split W^V W^O costs. A head of value width d_v can carry any map of rank d_v, and none of higher rank.

One head looks at one token, so its weight is 1 and the layer is the map x -> x W^V W^O. It is fitted to target maps of
rank r by alternating least squares; the best possible error is known from their singular values (Eckart and Young).
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded

TITLE = "A head of value width d carries maps of rank d"
DECKS = ("001",)
CLAIM = "Fitting a value map of rank r, the error drops to 0 at d_v = r."
EXPECTED = "Fitting a value map of rank r, the error drops to 0 at d_v = r."
FOUND = "With d_v >= r the error is at most 8e-15, with less it is at least 0.17, for ranks 8, 16 and 32."
COST = 1.2
SEED = 0

WIDTH = 64
RANKS = [8, 16, 32]
VALUES = [4, 8, 12, 16, 24, 32, 48, 64]
ROUNDS = 60


def compute() -> Numbers:
    numbers: Numbers = {"values": VALUES, "ranks": RANKS, "errors": [], "best": []}
    with seeded(SEED), torch.no_grad():
        for rank in RANKS:
            target = torch.randn(WIDTH, rank, dtype=torch.float64) @ torch.randn(rank, WIDTH, dtype=torch.float64)
            spectrum = torch.linalg.svdvals(target)
            errors = torch.tensor([fitted(target, width) for width in VALUES])
            best = torch.stack([spectrum[width:].norm() / spectrum.norm() for width in VALUES])
            numbers["errors"].append(plain(errors))
            numbers["best"].append(plain(best))
    return numbers


def fitted(target: Tensor, width: int) -> float:
    """The relative error that is left when a head of this value width has learned the target."""
    head = MultiHeadAttention(WIDTH, 1, value_dim=width, biases="").double()
    assert head.v is not None
    for _ in range(ROUNDS):  # each factor in turn, the other one fixed
        head.out.weight.copy_(torch.linalg.lstsq(head.v.weight.mT, target, driver="gelsd").solution.mT)
        head.v.weight.copy_(torch.linalg.lstsq(head.out.weight, target.mT, driver="gelsd").solution)
    tokens = torch.eye(WIDTH, dtype=torch.float64)[:, None]  # a batch of sentences of one token each
    said = head(tokens)[:, 0]
    return float((said - target).norm() / target.norm())


def draw(numbers: Numbers) -> Figure:
    note = f"The map $W^V W^O$ of one head fitted to targets of rank $r$, width {WIDTH}; rings are the best possible."
    figure = style.page(TITLE.replace("width d", "width $d_v$").replace("rank d", "rank $d_v$"), note, height=4.9)
    axes = figure.subplots()
    for rank, errors, best, part in zip(
        numbers["ranks"], numbers["errors"], numbers["best"], (0.45, 0.7, 1.0), strict=True
    ):
        tint = style.mix(style.WEIGHT, part)
        axes.plot(numbers["values"], errors, color=tint, marker="o")
        axes.plot(numbers["values"], best, "o", ms=11, mfc="none", color=tint, mew=1)
        axes.text(rank + 0.7, 0.03, f"$r = {rank}$", size=15, color=tint)
    axes.set_xticks(numbers["values"])
    axes.set(
        xlabel="value width $d_v$",
        ylim=(-0.04, 1),
        yticks=[0, 0.25, 0.5, 0.75, 1],
        title="relative error of the fitted map",
    )
    axes.grid(axis="y")
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    checks = []
    for rank, errors, best in zip(numbers["ranks"], numbers["errors"], numbers["best"], strict=True):
        narrow = [error for width, error in zip(numbers["values"], errors, strict=True) if width < rank]
        wide = [error for width, error in zip(numbers["values"], errors, strict=True) if width >= rank]
        off = max(abs(a - b) for a, b in zip(errors, best, strict=True))
        checks += [
            below(f"rank {rank}: largest error with d_v >= r", max(wide), 1e-6),
            above(f"rank {rank}: smallest error with d_v < r", min(narrow), 0.05),
            below(f"rank {rank}: farthest from the best possible", off, 0.01),
        ]
    return checks
