"""10.5: deck 003's picture of rank: singular values of a random matrix, and of a product of two thin ones."""

import torch
from matplotlib.figure import Figure

from regard import style
from regard.look.spectrum import cumulative_share, singular_values
from regard_lectures.figure import Check, Numbers, above, close, plain, seeded

TITLE = "What low rank looks like"
DECKS = ("003", "002")
CLAIM = "Half of the singular values of a random matrix hold 77 % of their sum; of a product of rank 128, all of it."
EXPECTED = (
    "At index 128 of 256 the singular values of a random matrix hold 0.77 of their sum, those of a product of rank 128 "
    "all of it, those of a softmax of random scores 0.88."
)
FOUND = "They hold 0.766, 1.000 and 0.876 of their sum."
COST = 0.3
SEED = 0

N, RANK, WIDTH = 256, 128, 32


def compute() -> Numbers:
    with seeded(SEED):
        full = torch.randn(N, N, dtype=torch.float64)
        thin = torch.randn(N, RANK, dtype=torch.float64) @ torch.randn(RANK, N, dtype=torch.float64)
        scores = torch.randn(N, WIDTH, dtype=torch.float64) @ torch.randn(WIDTH, N, dtype=torch.float64) / WIDTH**0.5
    matrices = {"random": full, "product": thin, "softmax": scores.softmax(-1)}
    return {name: plain(cumulative_share(singular_values(matrix)), 4) for name, matrix in matrices.items()}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Singular values of {N} x {N} matrices, the largest first, added up and divided by their sum. Left: a random "
        f"matrix, and\n$AB$ with $A$ {N} x {RANK} and $B$ {RANK} x {N}. Right: the softmax of random scores, before "
        "anything is learned."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, sharey=True)
    index = range(1, N + 1)
    left.plot(index, numbers["product"], color=style.KEY)
    right.plot(index, numbers["softmax"], color=style.WEIGHT)
    for axes in (left, right):
        axes.plot(index, numbers["random"], color=style.SECOND)
        axes.axvline(RANK, color=style.EDGE, lw=1.1, ls=(0, (4, 3)))
        axes.plot([RANK], [numbers["random"][RANK - 1]], "o", color=style.SECOND)
        axes.set(xlabel="singular values", xticks=[1, 64, 128, 192, 256], ylim=(0, 1.04))
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    left.plot([RANK], [1.0], "o", color=style.KEY)
    right.plot([RANK], [numbers["softmax"][RANK - 1]], "o", color=style.WEIGHT)
    at = {name: curve[RANK - 1] for name, curve in numbers.items()}
    left.text(RANK + 8, at["random"] - 0.07, style.percent(at["random"]), color=style.SECOND)
    right.text(RANK - 8, at["softmax"] + 0.03, style.percent(at["softmax"]), color=style.WEIGHT, ha="right")
    left.text(52, 0.83, "$AB$", color=style.KEY, ha="right", size=14)
    right.text(52, 0.83, "softmax", color=style.WEIGHT, weight="bold", ha="right")
    for axes in (left, right):
        axes.text(146, 0.56, "random", color=style.SECOND, weight="bold")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    at = {name: curve[RANK - 1] for name, curve in numbers.items()}
    return [
        close("share of the first 128, random", at["random"], 0.77, 0.01),
        close("share of the first 128, product", at["product"], 1.0, 1e-6),
        close("share of the first 128, softmax of random scores", at["softmax"], 0.88, 0.02),
        above(
            "the largest of the softmax over the largest of random", numbers["softmax"][0] / numbers["random"][0], 3.0
        ),
    ]
