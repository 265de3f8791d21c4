"""11.7: the candy jar of deck 003's closing picture: tokens that everybody can see, and heads that look at them.

A candy's features are its colour in OKLab and its place; a head picks four numbers of them as query and key, and what
it brings back is the mean colour under softmax(q·k / (2 T)). A product rewards long keys: limes, more colourful than
lemons and not far from them, get more than the lemon's own kind, and nearly all when it is cold enough. The page of
`regard serve` has the same jar to play with; a test holds its numbers against these.
"""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from regard import style
from regard.nn.attention import Softmax
from regard.nn.mask import Mask
from regard_lectures.figure import Check, Numbers, above, below, equal, plain

TITLE = "Candy-wise attention"
DECKS = ("003",)
CLAIM = (
    "A candy that asks gets a mixture of the others: its own kind alone when it is cold, of ever more when it is hot."
)
EXPECTED = (
    "Weights shown are the library's attention to 1e-6; a candy that asks gets its own kind alone when it is cold, and "
    "a mixture of ever more when it is hot."
)
FOUND = (
    "Weights agree to 7e-18, and the mixture spreads by 0.70 bits from cold to warm and 0.97 from warm to hot; but "
    "when it is cold 61 % of the lemon's look goes to limes, whose keys are longer, and 38 % to lemons."
)
COST = 0.1
SEED = 0

ROWS, COLUMNS = 4, 6
FLAVOURS: dict[str, style.Oklch] = {
    "cherry": (0.62, 0.21, 25),
    "orange": (0.76, 0.16, 62),
    "lemon": (0.89, 0.16, 100),
    "lime": (0.8, 0.19, 130),
    "mint": (0.84, 0.1, 170),
    "blueberry": (0.53, 0.16, 262),
    "grape": (0.48, 0.17, 310),
    "liquorice": (0.3, 0.02, 280),
}
ORDER = (0, 2, 5, 3, 6, 1, 4, 0, 7, 2, 1, 5, 6, 3, 0, 4, 7, 2, 1, 6, 5, 3, 0, 7)  # which flavour lies where
NAMES = [list(FLAVOURS)[flavour] for flavour in ORDER]
COLOURS = [style.lab(FLAVOURS[name]) for name in NAMES]
WIDTH = 4  # of a query and of a key
QUERY, HIDDEN = 9, 17  # who asks, a lemon; and another one that is hidden in the last jar
TEMPERATURES = (0.25, 1.0, 4.0)


def circle(place: int, period: int) -> list[float]:
    angle = 2 * math.pi * place / period
    return [math.cos(angle), math.sin(angle)]


def vectors(head: str) -> Tensor:
    """Of every candy, its query and its key at once.  -> (24, 4)"""
    places = [divmod(i, COLUMNS) for i in range(len(ORDER))]
    rows = {
        "colour": [[18 * a, 18 * b, 0.0, 0.0] for _, a, b in COLOURS],
        "lightness": [[8 * (lightness - 0.65), 0.0, 0.0, 0.0] for lightness, _, _ in COLOURS],
        "neighbours": [[2.6 * x for x in (*circle(i, 2 * ROWS), *circle(j, 2 * COLUMNS))] for i, j in places],
    }
    return torch.tensor(rows[head], dtype=torch.float64)


def looked(head: str, temperature: float = 1.0, hidden: int | None = None) -> Tensor:
    """Weights of the one that asks over all, by the library's attention.  -> (24,)"""
    own = vectors(head)[None, None]
    keep = torch.arange(own.shape[2]) != (-1 if hidden is None else hidden)
    kernel = Softmax(scale=WIDTH**-0.5 / temperature)
    return kernel.weights(own[:, :, QUERY : QUERY + 1], own, mask=Mask(keys=keep[None]))[0, 0, 0]


def mixed(weights: Tensor) -> list[float]:
    """The colour that comes out, in OKLab."""
    return [float(x) for x in weights @ torch.tensor(COLOURS, dtype=weights.dtype)]


def compute() -> Numbers:
    asked = {head: looked(head) for head in ("colour", "lightness", "neighbours")}
    asked["colour, one hidden"] = looked("colour", hidden=HIDDEN)
    heat = {str(temperature): looked("colour", temperature) for temperature in TEMPERATURES}
    own = vectors("colour")
    powers = (own @ own[QUERY] / math.sqrt(WIDTH)).exp()
    return {
        "heads": {name: {"weights": plain(x, 6), "mean": mixed(x)} for name, x in asked.items()},
        "heat": {name: {"weights": plain(x, 6), "mean": mixed(x)} for name, x in heat.items()},
        "by hand": float((powers / powers.sum() - asked["colour"]).abs().max()),
        "sums": max(abs(float(x.sum()) - 1) for x in (*asked.values(), *heat.values())),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Candies are tokens. The ringed one asks; the larger another is drawn, the more it looks at it. Below each jar"
        " stands the\ncolour that comes out. Last row: the weights of the first head when it is cold, as above, or hot."
    )
    figure = style.page(TITLE, note, height=6.4)
    halves = figure.add_gridspec(2, 1, height_ratios=(1, 0.72))
    upper, lower = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    for axes, (name, told) in zip(upper.subplots(1, 4), numbers["heads"].items(), strict=True):
        jar(axes, told, HIDDEN if "hidden" in name else None)
        axes.set_title(name, pad=6)
    for axes, (name, told) in zip(lower.subplots(1, 3), numbers["heat"].items(), strict=True):
        bars(axes, told, max(max(one["weights"]) for one in numbers["heat"].values()))
        axes.set_title(f"temperature {float(name):g}")
    return figure


def jar(axes: Axes, told: Numbers, hidden: int | None) -> None:
    most = max(told["weights"])
    for i, (colour, weight) in enumerate(zip(COLOURS, told["weights"], strict=True)):
        y, x = divmod(i, COLUMNS)
        size = 0.1 + 0.34 * math.sqrt(weight / most)
        axes.add_patch(Circle((x, -y), size, facecolor=style.rgb(*colour), edgecolor="none"))
        if i == QUERY:
            axes.add_patch(Circle((x, -y), 0.46, fill=False, edgecolor=style.INK, lw=1.6))
        if i == hidden:
            axes.plot([x - 0.22, x + 0.22], [-y - 0.22, -y + 0.22], color=style.INK, lw=2)
    axes.add_patch(Circle((COLUMNS / 2 - 0.5, -ROWS - 0.35), 0.5, facecolor=style.rgb(*told["mean"]), edgecolor="none"))
    axes.set(xlim=(-0.7, COLUMNS - 0.3), ylim=(-ROWS - 1, 0.7), aspect="equal")
    axes.axis("off")


def bars(axes: Axes, told: Numbers, most: float) -> None:
    weights = told["weights"]
    axes.bar(range(len(weights)), weights, 0.8, color=[style.rgb(*colour) for colour in COLOURS])
    axes.text(QUERY, weights[QUERY] + 0.02 * most, style.percent(weights[QUERY], 1), ha="center", size=10.5)
    axes.set(ylim=(0, 1.2 * most), yticks=[], xticks=[], xlim=(-0.8, len(weights) + 4))
    axes.spines["left"].set_visible(False)
    axes.plot([len(weights) + 2], [most / 2], "o", ms=26, color=style.rgb(*told["mean"]), mew=0)


def spread(weights: list[float]) -> float:
    """Entropy, in bits."""
    return -sum(weight * math.log2(weight) for weight in weights if weight > 0)


def checks(numbers: Numbers) -> list[Check]:
    heat = {float(name): told["weights"] for name, told in numbers["heat"].items()}
    cold, warm, hot = (heat[temperature] for temperature in TEMPERATURES)
    own = sum(weight for name, weight in zip(NAMES, cold, strict=True) if name == NAMES[QUERY])
    hidden = numbers["heads"]["colour, one hidden"]["weights"]
    return [
        below("the library's weights over softmax by hand: largest difference", numbers["by hand"], 1e-6),
        below("sums of weights over 1: largest difference", numbers["sums"], 1e-6),
        equal("a hidden candy: its weight", hidden[HIDDEN], 0.0),
        above("cold, head of colours: share of its own kind", own, 0.95),
        above("bits of spread, warm over cold", spread(warm) - spread(cold), 0),
        above("bits of spread, hot over warm", spread(hot) - spread(warm), 0),
    ]
