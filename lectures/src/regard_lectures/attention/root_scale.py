"""2.2c: why scores are divided by sqrt(d). A dot product of d random features has variance d: for wide heads the
softmax saturates, one key takes everything, and no gradient passes.

Queries and keys are drawn from N(0, 1); each query sees 16 keys. The Jacobian is that of the weights by the scores.
"""

import torch
from matplotlib.figure import Figure

from regard import style
from regard.nn.attention import Softmax
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded

TITLE = "Why the scores are divided by √d"
DECKS = ("000", "001", "002", "003", "004")
CLAIM = "Unscaled, wide heads saturate: the largest weight tends to 1 and the gradient to 0. Scaled, both stay flat."
EXPECTED = (
    "With growing width unscaled scores saturate (largest weight to 1, gradient to 0); divided by the root of the"
    " width both stay flat."
)
FOUND = (
    "At the widest head the largest weight is 0.98 unscaled and the gradient 0.084 of the scaled one; scaled, they"
    " vary by factors of 1.07 and 1.02 from width 8 on."
)
COST = 0.6
SEED = 0

WIDTHS = [2**i for i in range(1, 13)]
DRAWS, KEYS = 500, 16


def compute() -> Numbers:
    kinds = {"unscaled": Softmax(scale=1.0), "scaled": Softmax()}
    numbers: Numbers = {"widths": WIDTHS} | {name: {"largest": [], "jacobian": []} for name in kinds}
    with seeded(SEED):
        for width in WIDTHS:
            q, k = torch.randn(DRAWS, 1, 1, width), torch.randn(DRAWS, 1, KEYS, width)
            for name, kernel in kinds.items():
                p = kernel.weights(q, k)[:, 0, 0].double()
                slopes = torch.diag_embed(p) - p[:, :, None] * p[:, None]
                numbers[name]["largest"].append(plain(p.amax(-1).mean()))
                numbers[name]["jacobian"].append(plain(slopes.norm(dim=(1, 2)).mean()))
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"Random queries, {KEYS} random keys each. Left, how hard the choice is; right, how much gradient passes."
    figure = style.page(TITLE, note, height=4.8)
    left, right = figure.subplots(1, 2)
    widths = numbers["widths"]
    for axes, measure in ((left, "largest"), (right, "jacobian")):
        for name, tint, text in (("unscaled", style.SECOND, "$q·k$"), ("scaled", style.WEIGHT, "$q·k\\,/\\sqrt{d}$")):
            y = numbers[name][measure]
            axes.plot(widths, y, color=tint, marker="o")
            lift = 0.045 if (measure == "largest") == (name == "unscaled") else 0.05
            place = {"ha": "right", "va": "bottom", "size": 14, "color": tint}
            axes.text(widths[-1], y[-1] + (lift if name == "scaled" or measure == "largest" else 0.02), text, **place)
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 8, 32, 128, 512, 2048], ["2", "8", "32", "128", "512", "2048"])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        axes.set(xlabel="width $d$ of a head")
    left.set(title="largest weight, mean", ylim=(0, 1.1), yticks=[0, 0.25, 0.5, 0.75, 1])
    right.set(title="norm of the Jacobian, mean", ylim=(0, 0.5), yticks=[0, 0.1, 0.2, 0.3, 0.4])
    return figure


def checks(numbers: Numbers) -> list[Check]:
    unscaled, scaled = numbers["unscaled"], numbers["scaled"]
    flat = {name: max(scaled[name][2:]) / min(scaled[name][2:]) for name in ("largest", "jacobian")}
    return [
        above("unscaled, widest head: largest weight", unscaled["largest"][-1], 0.95),
        below(
            "unscaled, widest head: Jacobian, as a share of the scaled one",
            unscaled["jacobian"][-1] / scaled["jacobian"][-1],
            0.25,
        ),
        below("scaled is flat from d = 8 on: largest weight, greatest over smallest", flat["largest"], 1.1),
        below("scaled is flat from d = 8 on: Jacobian, greatest over smallest", flat["jacobian"], 1.1),
    ]
