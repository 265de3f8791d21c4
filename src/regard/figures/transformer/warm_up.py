"""3.5c: training without warm-up at a rate of 1e-3. Twelve layers deep, post-norm stalls and pre-norm learns; two
layers deep and with warm-up, post-norm ends as well as pre-norm. Xiong et al. (2020), section 3.2; the copy task.

The setting was chosen among about a dozen: at width 128 with a cosine rate post-norm stalls (above 0.8 log V); 64 wide
it reached 0.51 log V, more slowly than pre-norm but without stalling.
"""

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.figures.figure import Check, Numbers, above, below
from regard.figures.transformer.copying import learn, smooth

TITLE = "Training without warm-up"
DECKS = ("002",)
CLAIM = (
    "At a rate of 1e-3 from the first step, 12 post-norm layers stall and 12 pre-norm layers learn; 2 warmed up, both."
)
COST = 110.0
SEED = 0

SEEDS = 3
DEEP, SHALLOW = 12, 2
STEPS, LONGER, WARM = 120, 400, 80
KINDS: dict[Literal["post", "pre"], str] = {"post": style.SECOND, "pre": style.WEIGHT}
BATCH, RATE = (16, 4), 1e-3  # sentences of so many words


def compute() -> Numbers:
    numbers: Numbers = {"cold": {}, "warm": {}}
    for kind in KINDS:
        seeds = range(SEED, SEED + SEEDS)
        for name, depth, steps, warm in (("cold", DEEP, STEPS, 0), ("warm", SHALLOW, LONGER, WARM)):
            runs = [learn(kind, depth, seed=seed, steps=steps, batch=BATCH, rate=RATE, warm=warm) for seed in seeds]
            numbers[name][kind] = [smooth(run) for run in runs]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"Loss on the copy task as a share of log V (knowing nothing); {SEEDS} seeds each; rate 0.001, then falling."
    figure = style.page(TITLE, note, height=4.9)
    left, right = figure.subplots(1, 2, sharey=True)
    panel(left, numbers["cold"], f"{DEEP} + {DEEP} layers, no warm-up")
    panel(right, numbers["warm"], f"{SHALLOW} + {SHALLOW} layers, {WARM} steps of warm-up")
    for kind, tint in KINDS.items():
        runs = numbers["cold"][kind]
        style.end_label(left, STEPS, sum(y[-1] for y in runs) / len(runs), f"{kind}-norm", tint)
    left.set_xlim(0, 1.3 * STEPS)
    right.text(LONGER, 0.06, "both learn", ha="right", color=style.SOFT)
    return figure


def panel(axes: Axes, runs: Numbers, title: str) -> None:
    steps = 5 * len(runs["post"][0])
    for kind, tint in KINDS.items():
        for y in runs[kind]:
            axes.plot(range(3, steps + 1, 5), y, color=tint, lw=1.6)
    axes.axhline(1, color=style.EDGE, lw=1, ls=":")
    axes.set(title=title, xlabel="step", ylim=(0, 1.4), xlim=(0, steps), xticks=range(0, steps + 1, steps // 4))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def ends(runs: list[list[float]]) -> list[float]:
    """The loss over the last 20 steps of each run."""
    return [sum(y[-4:]) / 4 for y in runs]


def holds(numbers: Numbers) -> list[Check]:
    cold, warm = numbers["cold"], numbers["warm"]
    worse = (sum(ends(warm["post"])) - sum(ends(warm["pre"]))) / SEEDS
    return [
        above(
            "12 layers, no warm-up: post-norm stalls, best of 3 seeds, share of log V", min(ends(cold["post"])), 0.75
        ),
        below("12 layers, no warm-up: pre-norm learns, worst of 3 seeds, share of log V", max(ends(cold["pre"])), 0.5),
        below("2 layers, warm-up: post-norm learns, worst of 3 seeds, share of log V", max(ends(warm["post"])), 0.1),
        below("2 layers, warm-up: post-norm minus pre-norm, mean of 3 seeds, share of log V", worse, 0.02),
    ]
