"""2.1d: deck 000's four pictures of one word that attends to the others, with the numbers of a trained head.

The head is that of figure 2.4b, which was trained to tell whether a server is a machine or a waiter.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.nn.tap import capture
from regard_lectures.attention.server_sense import train
from regard_lectures.figure import Check, Numbers, aside, below, equal, plain

TITLE = "One word attends to the others"
DECKS = ("000",)
CLAIM = "A word asks, is compared with every word, weighs them, and becomes the weighted sum of what they carry."
EXPECTED = "Comparing, weighing and summing, step by step, gives what the layer computes."
FOUND = "The weighted sum differs from the layer’s output by 6e-8; the word most looked at is “crashed”."
COST = 0.3
SEED = 0

SENTENCE = "the server is crashed ."
ASKING = 1
STEPS = 18  # of training: the head has begun to look the right way, and is not yet sure
SHOWN = 8  # features of a value that are drawn


def compute() -> Numbers:
    model = train(SEED, STEPS)
    with torch.no_grad(), capture(model, "attention.*") as seen:
        model([SENTENCE])
    q, k, v, weights, mixed = (
        seen[f"attention.{name}"][0][0, 0] for name in ("queries", "keys", "values", "weights", "mixed")
    )
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return {
        "words": SENTENCE.split(),
        "scores": plain(scores[ASKING]),
        "weights": plain(weights[ASKING]),
        "values": plain(v[:, :SHOWN], 3),
        "mixed": plain(mixed[ASKING, :SHOWN], 3),
        "total": float(weights[ASKING].sum()),
        "sum": float((weights[ASKING] @ v - mixed[ASKING]).abs().max()),
        "strongest": int(weights[ASKING].argmax()),
    }


def draw(numbers: Numbers) -> Figure:
    figure = style.page(
        TITLE,
        f"The row of “server” in a head that learns to tell machines from waiters, after {STEPS} steps.",
        height=6.25,
    )
    axes = style.stage(figure)
    steps = [
        "1   a word asks",
        "2   it is compared with every word: $q·k/\\sqrt{d}$",
        "3   softmax makes weights of the scores",
        "4   it takes the weighted sum",
    ]
    for i, step in enumerate(steps):
        x, y = 0.35 + 4.85 * (i % 2), 2.95 - 2.6 * (i // 2)
        style.write(axes, x, y + 1.98, step, ha="left", size=12.5, weight="bold")
        panel(axes, x, y, numbers, i + 1)
    return figure


def panel(axes: Axes, left: float, y: float, numbers: Numbers, step: int) -> None:
    words, weights = numbers["words"], numbers["weights"]
    places = [left + 0.4 + 0.92 * i for i in range(len(words))]
    for i, (x, word) in enumerate(zip(places, words, strict=True)):
        asked = step > 2 and i == numbers["strongest"]
        tint = style.QUERY if i == ASKING else style.KEY if asked else style.INK
        if i == ASKING:
            style.box(axes, x - 0.42, y - 0.02, 0.84, 0.42, edge="white", fill=style.QUERY_WASH, line=0)
        style.write(axes, x, y + 0.19, word, family=style.SERIF, size=18, color=tint)
    if step == 1:
        style.write(axes, places[ASKING], y + 0.95, "$q$", size=20, color=style.QUERY)
        style.arrow(axes, (places[ASKING], y + 0.45), (places[ASKING], y + 0.75), color=style.QUERY)
        style.write(axes, places[ASKING] + 0.3, y + 0.95, "what am I?", size=11, color=style.SOFT, ha="left")
        return
    top = y + 1.45
    for i, x in enumerate(places):
        start, end = (
            ((places[ASKING], y + 0.45), (x, top - 0.12)) if step < 4 else ((x, y + 0.45), (places[2], top - 0.2))
        )
        line = 1.2 if step == 2 else 0.7 + 7 * weights[i]
        style.arrow(axes, start, end, color=style.EDGE if step == 2 else style.WEIGHT, line=line, head=0, zorder=1)
        if step == 2:
            style.write(
                axes, x, top + 0.02, f"{numbers['scores'][i]:.1f}".replace("-", "−"), family=style.MONO, size=12
            )
        if step == 3:
            style.write(
                axes, x, top + 0.02, style.percent(weights[i]), size=12, weight="bold" if weights[i] > 0.5 else "normal"
            )
    if step == 4:
        style.cells(axes, places[2] - 0.21 * SHOWN / 2, top + 0.1, [numbers["mixed"]], 0.21, tint=style.WEIGHT)
        style.write(axes, places[2] + 0.95, top, "$y = \\Sigma\\, a_i v_i$", size=14, ha="left")


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("the weights add up to one (difference)", abs(numbers["total"] - 1), 1e-5),
        below("the weighted sum of the values is what the layer computes (largest difference)", numbers["sum"], 1e-5),
        aside(equal("the word most looked at", numbers["words"][numbers["strongest"]], "crashed")),
    ]
