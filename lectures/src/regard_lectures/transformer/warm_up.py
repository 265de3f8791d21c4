"""3.5c: training without warm-up at a rate of 1e-3. Twelve layers deep, post-norm stalls and pre-norm learns; two
layers deep and with warm-up, post-norm ends as well as pre-norm. Xiong et al. (2020), section 3.2; the copy task.

The setting was chosen among about a dozen: at width 128 with a cosine rate post-norm stalls (above 0.8 log V); 64 wide
it reached 0.51 log V, more slowly than pre-norm but without stalling.
"""

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, aside, starts_above, starts_below
from regard_lectures.transformer.copying import learn, smooth

TITLE = "Training without warm-up"
DECKS = ("002",)
CLAIM = (
    "At a rate of 1e-3 from the first step, 12 post-norm layers stall and 12 pre-norm layers learn; 2 warmed up, both."
)
EXPECTED = (
    "Without warm-up at a rate of 1e-3 post-norm stalls at 12 layers (above 0.75 log V) and pre-norm learns (below"
    " 0.5); shallow and warmed up, post-norm ends better or about as well, worse by less than 0.02 log V."
)
FOUND = (
    "12 post-norm layers end at 0.81 to 0.94 log V and pre-norm ones at 0.28 to 0.38, in 3 starts; with 2 layers and"
    " warm-up post-norm is not better, but within 0.006; the setting was chosen among about a dozen."
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


def checks(numbers: Numbers) -> list[Check]:
    cold, warm = numbers["cold"], numbers["warm"]
    worse = [post - pre for post, pre in zip(ends(warm["post"]), ends(warm["pre"]), strict=True)]
    return [
        starts_above("12 layers, no warm-up: post-norm stalls, share of log V", ends(cold["post"]), 0.75),
        starts_below("12 layers, no warm-up: pre-norm learns, share of log V", ends(cold["pre"]), 0.5),
        aside(starts_below("2 layers, warm-up: post-norm learns, share of log V", ends(warm["post"]), 0.1)),
        starts_below("2 layers, warm-up: post-norm minus pre-norm, share of log V", worse, 0.02),
    ]
