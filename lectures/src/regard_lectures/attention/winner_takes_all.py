"""2.2b: deck 000's raw and normalised bars (after Bridle): softmax as a soft form of picking the largest."""

import torch
from matplotlib.figure import Figure

from regard import style
from regard_lectures.attention.softmax_scale import softmax
from regard_lectures.figure import Check, Numbers, above, below, equal, plain

TITLE = "Softmax is a competition"
DECKS = ("000",)
CLAIM = (
    "Softmax keeps the order of the scores, makes them shares of one, and gives the largest more than its plain share."
)
EXPECTED = "Softmax keeps the order of the scores, adds up to one, and gives the winner more than its plain share."
FOUND = "The winner gets 1.99 times its plain share, and its lead over the second is 2.5 times the raw one."
COST = 0.1
SEED = 0

SCORES = [1.3, 5.1, 2.2, 0.7, 1.1, 3.9]


def compute() -> Numbers:
    z = torch.tensor(SCORES, dtype=torch.float64)
    weights = softmax(z)
    return {
        "scores": SCORES,
        "weights": plain(weights),
        "shares": plain(z / z.sum()),
        "total": float(weights.sum()),
        "order": bool((z.argsort() == weights.argsort()).all()),
        "lead": float(weights.max() / weights.topk(2).values[1]),
        "raw lead": float(z.max() / z.topk(2).values[1]),
    }


def draw(numbers: Numbers) -> Figure:
    note = "The same six numbers, raw, as plain shares of their sum, and after softmax: the large one becomes larger."
    figure = style.page(TITLE, note, height=4.5)
    panels = figure.subplots(1, 3)
    labels = [f"$z_{i + 1}$" for i in range(len(numbers["scores"]))]
    best = max(range(len(labels)), key=numbers["scores"].__getitem__)
    kinds = (
        ("scores", "raw scores $z$", 6.2),
        ("shares", "$z_i\\,/\\,\\Sigma z$", 1.0),
        ("weights", "softmax($z$)", 1.0),
    )
    for axes, (name, title, top) in zip(panels, kinds, strict=True):
        strong = style.WEIGHT if name == "weights" else style.SOFT
        pale = style.mix(strong, 0.45)
        tints = [strong if i == best else pale for i in range(len(labels))]
        form = "{:.1f}".format if name == "scores" else "{:.2f}".format
        style.bars(axes, labels, numbers[name], color=tints, form=form, top=top, width=0.72)
        axes.set_title(title, size=14)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("the weights add up to one (difference)", abs(numbers["total"] - 1), 1e-12),
        equal("the order is kept", numbers["order"], True),
        above("the winner's weight over its plain share", max(numbers["weights"]) / max(numbers["shares"]), 1),
        above("the winner's lead over the second, over the raw lead", numbers["lead"] / numbers["raw lead"], 1),
    ]
