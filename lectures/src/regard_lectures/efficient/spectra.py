"""10.5b: Linformer's spectra: how few singular values a trained encoder's maps have, layer by layer and head by head.

What it means must be held against the same net before it learned: maps that are nearly even have one large singular
value and little else, so they are lower in rank still.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.look.spectrum import cumulative_share, singular_values
from regard_lectures.efficient.trained import LENGTH, maps
from regard_lectures.figure import Check, Numbers, above, aside, close, plain, seeded

TITLE = "The rank of trained attention"
DECKS = ("002", "003", "004")
CLAIM = "A trained encoder's maps are lower in rank than random matrices, deep ones most."
EXPECTED = (
    "In a trained encoder the first singular values of attention maps hold more of the sum than those of a random "
    "matrix, and on average more in deeper layers."
)
FOUND = (
    "The first 128 of 512 hold at least 0.25 more than a random matrix's 0.46, and 0.16 more in the last layer than in "
    "the first; but maps of the untrained net hold 0.10 more still, so this is no evidence that training makes them "
    "low in rank."
)
COST = 18.0
SEED = 0

INDEX, STEP = 128, 16


def compute() -> Numbers:
    with seeded(SEED):
        random = cumulative_share(singular_values(torch.randn(LENGTH, LENGTH)))
    numbers: Numbers = {"random": shown(random)}
    for name, learned in (("trained", True), ("untrained", False)):
        layers = torch.stack([cumulative_share(singular_values(layer)) for layer in maps(learned=learned, seed=SEED)])
        numbers[name] = {"curves": shown(layers.mean(1)), "heads": plain(layers[..., INDEX - 1], 3)}
    return numbers


def shown(curves: Tensor) -> list[float] | list[list[float]]:
    found: list[float] | list[list[float]] = plain(curves[..., STEP - 1 :: STEP], 4)
    return found


def means(numbers: Numbers, name: str) -> list[float]:
    return [sum(layer) / len(layer) for layer in numbers[name]["heads"]]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Singular values of the maps of MiniLM for {LENGTH} pieces of Wikipedia, added up from the largest on. Left: "
        "the mean of each layer's\ntwelve heads. Right: what the first 128 of 512 hold, in percent, head by head; "
        "before it learned, 93 to 95 in every layer."
    )
    figure = style.page(TITLE, note, height=5.6)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.05))
    index = range(STEP, LENGTH + 1, STEP)
    layers = numbers["trained"]["curves"]
    for i, curve in enumerate(layers):
        left.plot(index, curve, color=style.mix(style.WEIGHT, 0.3 + 0.7 * i / (len(layers) - 1)), lw=1.6)
    middle = [sum(column) / len(column) for column in zip(*numbers["untrained"]["curves"], strict=True)]
    left.plot(index, middle, color=style.KEY, ls=(0, (4, 2)), lw=1.6)
    left.plot(index, numbers["random"], color=style.SECOND, lw=1.6)
    left.axvline(INDEX, color=style.EDGE, lw=1.1, ls=(0, (4, 3)))
    left.text(236, 0.66, "random matrix", color=style.SECOND, weight="bold")
    left.text(236, 0.57, "layers 1 to 6, pale to dark", color=style.WEIGHT, weight="bold")
    left.text(236, 0.48, "untrained", color=style.KEY, weight="bold")
    left.set(xlabel="singular values", xticks=[16, 128, 256, 384, 512], ylim=(0, 1.03))
    left.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    table = numbers["trained"]["heads"]
    right.imshow(table, cmap=style.WEIGHTS, vmin=0.2, vmax=1.0, aspect="auto")
    for row, layer in enumerate(table):
        for column, value in enumerate(layer):
            right.text(
                column,
                row,
                f"{100 * value:.0f}",
                ha="center",
                va="center",
                size=9,
                color="white" if value > 0.6 else style.INK,
            )
    right.set(xlabel="head", ylabel="layer", xticks=range(12), yticks=range(6))
    right.set_xticklabels([str(i + 1) for i in range(12)])
    right.set_yticklabels([str(i + 1) for i in range(6)])
    right.tick_params(length=0)
    for spine in right.spines.values():
        spine.set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    trained = means(numbers, "trained")
    random = numbers["random"][INDEX // STEP - 1]
    return [
        aside(close("held by the first 128, random matrix", random, 0.46, 0.02)),
        above("by which the least of all layers is above it", min(trained) - random, 0.1),
        above("the last layer over the first", trained[-1] - trained[0], 0.05),
        above("the last three layers over the first three", sum(trained[3:]) / 3 - sum(trained[:3]) / 3, 0.05),
    ]
