"""2.1: attention is a soft dictionary. A query is compared with five keys and gets a mixture of their values.

The inverse temperature b says how soft: at 0 the answer is the mean, at 50 the nearest key answers alone. These are the
two extreme cases of deck 004. There the queries and the keys are one set; for unit vectors -b |q - k|^2 is 2b q.k up to
a constant, so each query finds itself as b grows.
"""

from typing import Literal

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import Softmax
from regard_lectures.figure import Check, Numbers, above, below, close, plain

TITLE = "Attention is a soft dictionary"
DECKS = ("004", "000", "003")
CLAIM = "As the inverse temperature grows from 0 to 50, the answer moves from the mean of the values to a hard look-up."
EXPECTED = (
    "As the inverse temperature grows from 0 to 50, the answer moves from the mean of the values to a hard look-up."
)
FOUND = (
    "At 0 the answer is 4.6, the mean; at 50 it is 8.996, where the nearest key holds 9 and has 0.999 of the weight."
)
COST = 0.1
SEED = 0

KEYS = ["north", "north-east", "east", "south", "west"]
ANGLES = [90.0, 45.0, 0.0, 270.0, 180.0]
VALUES = [2.0, 9.0, 5.0, 4.0, 3.0]
QUERY_ANGLE = 33.0  # a direction that is no key; north-east is nearest
NEAREST = 1


def compute() -> Numbers:
    keys, query = unit(ANGLES), unit([QUERY_ANGLE])
    values = torch.tensor(VALUES, dtype=torch.float64)[:, None]
    sharpness = [0.0, *torch.logspace(-1.3, torch.tensor(50.0).log10().item(), 100).tolist()]
    kernels = [Softmax(scale=b) for b in sharpness]  # scores are b q.k
    weights = torch.stack([kernel.weights(query[None], keys[None])[0, 0] for kernel in kernels])
    answers = torch.stack([kernel(query[None], keys[None], values[None])[0, 0, 0] for kernel in kernels])
    own = kernels[-1](keys[None], keys[None], values[None])[0, :, 0]  # every key asks for itself
    return {
        "sharpness": plain(torch.tensor(sharpness)),
        "weights": plain(weights.T),
        "answers": plain(answers),
        "mean": sum(VALUES) / len(VALUES),
        "nearest": VALUES[NEAREST],
        "soft": float(answers[0]),
        "hard": float(answers[-1]),
        "top": float(weights[-1, NEAREST]),
        "own": float((own - values[:, 0]).abs().max()),
    }


def unit(degrees: list[float]) -> Tensor:
    angle = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angle.cos(), angle.sin()), -1)


def draw(numbers: Numbers) -> Figure:
    note = (
        "Five keys, each with a value, and a query that is none of them: the sharper the score, the harder the choice."
    )
    figure = style.page(TITLE, note, height=4.6)
    rose, shares, answer = figure.subplots(1, 3, width_ratios=(1, 1.35, 1.1))
    draw_rose(rose)
    x, place = range(len(numbers["sharpness"])), ticks(numbers["sharpness"])
    tints = [style.mix(style.WEIGHT, part) for part in (0.14, 1.0, 0.22, 0.10, 0.18)]
    shares.stackplot(x, numbers["weights"], colors=tints, edgecolor="white", linewidth=1.2)
    for i, key in enumerate(KEYS):
        ink = "white" if i == NEAREST else style.INK
        style.write(shares, 3, 0.2 * i + 0.1, f"{key} → {VALUES[i]:g}", ha="left", size=10.5, color=ink)
    shares.set(
        title="weight of each key", xlim=(0, x[-1]), ylim=(0, 1), yticks=[0, 0.5, 1], xlabel="inverse temperature b"
    )
    shares.set_yticklabels(["0", "50 %", "100 %"])
    answer.axhline(numbers["mean"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    answer.axhline(numbers["nearest"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    answer.plot(x, numbers["answers"], color=style.WEIGHT, lw=2.8)
    answer.text(
        x[-1],
        numbers["mean"] - 0.12,
        f"mean of the values, {numbers['mean']:g}",
        ha="right",
        va="top",
        color=style.SOFT,
    )
    answer.text(
        0, numbers["nearest"] + 0.1, f"value of the nearest key, {numbers['nearest']:g}", va="bottom", color=style.SOFT
    )
    answer.set(
        title="answer", xlim=(0, x[-1]), ylim=(3.6, 9.9), yticks=[4, 5, 6, 7, 8, 9], xlabel="inverse temperature b"
    )
    for axes in (shares, answer):
        axes.set_xticks(list(place), list(place.values()))
        axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def ticks(sharpness: list[float]) -> dict[int, str]:
    """Where 0, 0.1, 1, 10 and 50 stand among the samples, which are spaced by ratio."""
    wanted = (0, 0.1, 1, 10, 50)
    return {min(range(len(sharpness)), key=lambda i: abs(sharpness[i] - b)): f"{b:g}" for b in wanted}


def draw_rose(axes: Axes) -> None:
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.72, 1.62), aspect="equal", title="keys and the query", anchor="N")
    axes.axis("off")
    for (x, y), key, value in zip(unit(ANGLES).tolist(), KEYS, VALUES, strict=True):
        style.arrow(axes, (0, 0), (x, y), color=style.KEY, line=2.2, head=14)
        slanted = x > 0.1 and y > 0.1
        dx, dy = (0.04, 0.27) if slanted else (0.28 * x, 0.32 * y - (0.24 if y == 0 else 0))
        side: Literal["left", "center"] = "left" if slanted else "center"
        style.write(axes, x + dx, y + dy, f"{key}\n→ {value:g}", color=style.KEY, size=10.5, ha=side)
    x, y = unit([QUERY_ANGLE])[0].tolist()
    style.arrow(axes, (0, 0), (0.78 * x, 0.78 * y), color=style.QUERY, line=3.2, head=18)
    style.write(axes, 0.78 * x + 0.1, 0.78 * y - 0.1, "query", color=style.QUERY, weight="bold", ha="left")


def checks(numbers: Numbers) -> list[Check]:
    return [
        close("b = 0: the answer is the mean of the values", numbers["soft"], numbers["mean"], 1e-9),
        close("b = 50: the answer is the nearest key's value", numbers["hard"], numbers["nearest"], 0.01),
        above("b = 50: weight of the nearest key", numbers["top"], 0.99),
        below("queries = keys, b = 50: farthest answer from a query's own value", numbers["own"], 0.01),
    ]
