"""3.6d: 18-layer Transformers on the copy task: post-norm, pre-norm and Admin, Liu et al. (2020), section 5.

Rate 1e-3 from the first step. Admin is post-norm whose skips were rescaled after looking at one batch. The setting was
chosen among about a dozen so that two minutes show the difference: 64 wide, post-norm reached 0.64 log V; at a constant
5e-4 it ended at 0.60 to 0.88, Admin at 0.23 to 0.29.
"""

from typing import Literal

from matplotlib.figure import Figure

from regard import style
from regard.figures.figure import Check, Numbers, above, below
from regard.figures.transformer.copying import learn, smooth

TITLE = "Admin trains where post-norm does not"
DECKS = ("002",)
CLAIM = "18 + 18 layers deep, post-norm hardly moves; pre-norm and Admin learn."
COST = 100.0
SEED = 0

DEPTH, STEPS, SEEDS = 18, 80, 3
BATCH, RATE = (32, 2), 1e-3  # sentences of so many words
KINDS: dict[Literal["post", "pre", "admin"], str] = {"post": style.SECOND, "pre": style.WEIGHT, "admin": style.INK}


def compute() -> Numbers:
    return {
        kind: [
            smooth(learn(kind, DEPTH, seed=seed, steps=STEPS, batch=BATCH, rate=RATE))
            for seed in range(SEED, SEED + SEEDS)
        ]
        for kind in KINDS
    }


def draw(numbers: Numbers) -> Figure:
    note = f"Loss on the copy task as a share of log V; {DEPTH} + {DEPTH} layers, {SEEDS} seeds each, no warm-up."
    figure = style.page(TITLE, note, height=4.9)
    axes = figure.subplots()
    for kind, tint in KINDS.items():
        for y in numbers[kind]:
            axes.plot([5 * i + 3 for i in range(len(y))], y, color=tint, lw=1.8, ls="--" if kind == "admin" else "-")
        last = sum(y[-1] for y in numbers[kind]) / SEEDS
        text = "Admin" if kind == "admin" else f"{kind}-norm"
        style.end_label(axes, STEPS - 2, last, text, tint, dy={"admin": 9, "pre": -9}.get(kind, 0))
    axes.axhline(1, color=style.EDGE, lw=1, ls=":")
    axes.text(STEPS, 1.02, "log V", size=10.5, color=style.SOFT, ha="right", va="bottom")
    axes.set(xlabel="step", ylim=(0, 1.35), xlim=(0, STEPS * 1.16), xticks=range(0, STEPS + 1, 20))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def ends(runs: list[list[float]]) -> list[float]:
    """The loss over the last 10 steps of each run."""
    return [sum(y[-2:]) / 2 for y in runs]


def holds(numbers: Numbers) -> list[Check]:
    return [
        above("post-norm stalls: best of 3 seeds, share of log V", min(ends(numbers["post"])), 0.75),
        below("pre-norm learns: worst of 3 seeds, share of log V", max(ends(numbers["pre"])), 0.5),
        below("Admin learns: worst of 3 seeds, share of log V", max(ends(numbers["admin"])), 0.5),
    ]
