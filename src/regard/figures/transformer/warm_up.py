"""3.5c: training without warm-up at a rate of 1e-3. Twelve layers deep, post-norm stalls and pre-norm learns; three
layers deep and with warm-up, post-norm ends as well as pre-norm. Xiong et al. (2020), section 3.2; the copy task.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.figures import style
from regard.figures.figure import Check, Numbers, above, below
from regard.figures.transformer.copying import learn, smooth

TITLE = "Training without warm-up"
DECKS = ("002",)
CLAIM = "At a rate of 1e-3 from the first step, 12 post-norm layers stall and 12 pre-norm layers learn; 3 warmed up, both."
COST = 75.0
SEED = 0

SEEDS = 3
DEEP, SHALLOW = 12, 3
STEPS, LONGER, WARM = 120, 300, 60


def compute() -> Numbers:
    numbers: Numbers = {"cold": {}, "warm": {}}
    for kind in ("post", "pre"):
        seeds = range(SEED, SEED + SEEDS)
        numbers["cold"][kind] = [smooth(learn(kind, DEEP, seed=seed, steps=STEPS)) for seed in seeds]
        numbers["warm"][kind] = [smooth(learn(kind, SHALLOW, seed=seed, steps=LONGER, warm=WARM)) for seed in seeds]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"Loss on the copy task as a share of log V, of knowing nothing; {SEEDS} seeds each, Adam, rate 0.001."
    figure = style.page(TITLE, note, height=4.9)
    left, right = figure.subplots(1, 2, sharey=True)
    panel(left, numbers["cold"], f"{DEEP} + {DEEP} layers, no warm-up")
    panel(right, numbers["warm"], f"{SHALLOW} + {SHALLOW} layers, {WARM} steps of warm-up")
    return figure


def panel(axes: Axes, runs: Numbers, title: str) -> None:
    for kind, tint in (("post", style.SECOND), ("pre", style.WEIGHT)):
        for y in runs[kind]:
            axes.plot([5 * i + 3 for i in range(len(y))], y, color=tint, lw=1.6)
        last = sum(y[-1] for y in runs[kind]) / len(runs[kind])
        style.end_label(axes, 5 * len(y), last, f"{kind}-norm", tint, dy={"post": 8, "pre": -8}[kind])
    axes.axhline(1, color=style.EDGE, lw=1, ls=":")
    axes.set(title=title, xlabel="step", ylim=(0, 1.4), xlim=(0, 6.4 * len(y)))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def ends(runs: list[list[float]]) -> list[float]:
    """The loss over the last 20 steps of each run."""
    return [sum(y[-4:]) / 4 for y in runs]


def holds(numbers: Numbers) -> list[Check]:
    cold, warm = numbers["cold"], numbers["warm"]
    worst = max(post - pre for post, pre in zip(ends(warm["post"]), ends(warm["pre"]), strict=True))
    return [
        above("12 layers, no warm-up: post-norm stalls, best of 3 seeds, share of log V", min(ends(cold["post"])), 0.75),
        below("12 layers, no warm-up: pre-norm learns, worst of 3 seeds, share of log V", max(ends(cold["pre"])), 0.5),
        below("3 layers, warm-up: post-norm learns, worst of 3 seeds, share of log V", max(ends(warm["post"])), 0.1),
        below("3 layers, warm-up: post-norm minus pre-norm, worst of 3 seeds, share of log V", worst, 0.02),
    ]
