"""3.9c: an RNN learns to go on with a sine wave, fed in three ways: with the right values (teacher forcing), with its
own (back-feeding), or by chance with either (scheduled sampling).

A wave has one of 24 levels at each step, a period of 8 to 16 steps, and any phase. The encoder reads 12 steps; the
decoder writes the next 32, each from the last state and the level that it is fed. Scheduled sampling here gives half of
the right levels at first and fewer and fewer later: with all of them at first, as in its paper, the change came too
abruptly for so few steps (alone, its error after 480 was 0.4 to 0.8 with k = 30 or 50, and no better than the teacher's
with 70 or 100).
"""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.tasks.translation import TEACHER_FORCING, Feeding, Translate
from regard.models.rnn import Config, RNNTranslator
from regard_lectures.figure import Check, Numbers, aside, below, plain, seeded, starts_above, starts_below
from regard_lectures.learning.lessons import lesson

TITLE = "What a pupil was never exposed to"
DECKS = ("004", "003")
CLAIM = (
    "Fed with the right values an RNN learns fastest, but alone its error grows with every step; less so if it was fed "
    "with some of its own."
)
EXPECTED = (
    "Fed with the right values an RNN learns fastest, but alone its error grows with the horizon, and less so after"
    " scheduled sampling."
)
FOUND = (
    "Alone, the error grows by 0.20 to 0.24 after teacher forcing, 0.15 to 0.17 after scheduled sampling and 0.07 to"
    " 0.09 after back-feeding, which ends best, in 3 starts."
)
COST = 150.0
SEED = 0

LEVELS, READ, WRITTEN = 24, 12, 32
SEEDS, STEPS, BATCH, RATE = 3, 480, 32, 6e-3
LOOKS = [20, 40, 60, 80, 120, 160, 240, 320, 400, 480]
WAYS = {"teacher": TEACHER_FORCING, "scheduled": Feeding(0.5, 90.0), "back-feeding": Feeding(0.0)}
TINTS = {"teacher": style.SECOND, "scheduled": style.WEIGHT, "back-feeding": style.INK}


def waves(count: int, chance: torch.Generator) -> Pairs:
    """The first step that is written is fed with the last one that was read."""
    period = 8 + 8 * torch.rand(count, 1, generator=chance)
    phase = 2 * math.pi * torch.rand(count, 1, generator=chance)
    x = torch.sin(2 * math.pi * torch.arange(READ + WRITTEN) / period + phase)
    levels = ((x + 1) / 2 * (LEVELS - 1)).round().long()
    wanted = levels[:, READ:]
    return Pairs(levels[:, :READ], None, levels[:, READ - 1 : -1], wanted, torch.ones_like(wanted, dtype=torch.bool))


def compute() -> Numbers:
    numbers: Numbers = {"steps": LOOKS, "ways": {way: {"fed": [], "alone": [], "horizon": []} for way in WAYS}}
    for seed in range(SEED, SEED + SEEDS):
        chance = torch.Generator().manual_seed(seed)
        train, unseen = [waves(BATCH, chance) for _ in range(STEPS)], waves(256, chance)
        for way, feeding in WAYS.items():
            with seeded(seed):
                config = Config(vocab=LEVELS, dim=16, hidden=48, decoder="sutskever", cell="gru", bidirectional=False)
                task = Translate(RNNTranslator(config), None, 0.0, feeding)
                found = learned(task, train, unseen)
                own = numbers["ways"][way]
                own["fed"].append(found["fed"])
                own["alone"].append(found["alone"])
                own["horizon"].append(plain(errors(task, unseen, 0.0).mean(0), 3))
                if seed == SEED:
                    own["wave"] = said(task, unseen, 0.0)[0].tolist()
                    numbers["wave"] = {"read": unseen.source[0].tolist(), "written": unseen.wanted[0].tolist()}
    return numbers


def learned(task: Translate, train: list[Pairs], unseen: Pairs) -> dict[str, list[float]]:
    """The error on unseen waves at some steps: fed with the right levels, and alone."""
    loss = lesson(task, train)
    found: dict[str, list[float]] = {"fed": [], "alone": []}
    optimizer = torch.optim.Adam(task.net.parameters())
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, 2.5 * (1 - (step - 1) / STEPS))
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(task.net.parameters(), 1.0)
        optimizer.step()
        if step in LOOKS:
            for name, share in (("fed", 1.0), ("alone", 0.0)):
                found[name].append(float(f"{float(errors(task, unseen, share).mean()):.3g}"))
    return found


@torch.no_grad()
def said(task: Translate, batch: Pairs, share: float) -> Tensor:
    levels: Tensor = task.net.logits(task.states(batch, share)).argmax(-1)
    return levels


def errors(task: Translate, batch: Pairs, share: float) -> Tensor:
    """How far off each step is; the wave goes from -1 to 1.  -> (b, n)"""
    return (said(task, batch, share) - batch.wanted).abs().double() * 2 / (LEVELS - 1)


def draw(numbers: Numbers) -> Figure:
    note = f"A GRU goes on with a sine wave. Error: mean distance from the true wave, of height 1; {SEEDS} seeds each."
    figure = style.page(TITLE, note, height=7.4)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.6, 1))
    left, right, wave = (figure.add_subplot(place) for place in (grid[0, 0], grid[0, 1], grid[1, :]))
    for way, tint in TINTS.items():
        own = numbers["ways"][way]
        for fed, horizon in zip(own["fed"], own["horizon"], strict=True):
            left.plot(numbers["steps"], fed, color=tint, lw=1.7)
            right.plot(range(1, WRITTEN + 1), horizon, color=tint, lw=1.7)
        end = sum(horizon[-1] for horizon in own["horizon"]) / SEEDS
        shift = {"scheduled": -4, "back-feeding": -8}.get(way, 0)
        style.end_label(right, WRITTEN, end, way, tint, dy=shift)
    left.set_yscale("log")
    left.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["0.01", "0.03", "0.1", "0.3", "1"])
    left.minorticks_off()
    left.set(title="fed with the right values", xlabel="steps of learning", xlim=(0, STEPS + 5))
    right.set(title="alone", xlabel="steps since it was left alone", xlim=(0, WRITTEN * 1.42), ylim=(0, None))
    right.set_xticks(range(0, WRITTEN + 1, 8))
    example(wave, numbers)
    for axes in (left, right, wave):
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def example(axes: Axes, numbers: Numbers) -> None:
    """One unseen wave, and what each pupil makes of it alone."""
    truth = numbers["wave"]["read"] + numbers["wave"]["written"]
    axes.plot([height(level) for level in truth], color=style.EDGE, lw=5, alpha=0.35, solid_capstyle="round")
    for way, tint in TINTS.items():
        levels = [numbers["wave"]["read"][-1], *numbers["ways"][way]["wave"]]
        axes.plot(range(READ - 1, READ + WRITTEN), [height(x) for x in levels], color=tint, lw=1.6)
    axes.axvline(READ - 1, color=style.SOFT, lw=1)
    axes.text(READ - 1.4, 1.22, "read", ha="right", color=style.SOFT, size=10)
    axes.text(READ - 0.6, 1.22, "written alone; grey: the true wave", color=style.SOFT, size=10)
    axes.set(xlim=(-0.5, READ + WRITTEN - 0.5), ylim=(-1.15, 1.15), yticks=[-1, 0, 1])
    axes.set_xticks(range(READ - 1, READ + WRITTEN, 8), [str(step) for step in range(0, WRITTEN + 1, 8)])
    axes.set_xlabel("steps since it was left alone")


def height(level: int) -> float:
    return 2 * level / (LEVELS - 1) - 1


def quarter(values: list[float], which: int) -> float:
    size = len(values) // 4
    return sum(values[which * size : (which + 1) * size]) / size


def growth(values: list[float]) -> float:
    """How much larger the error is over the last quarter of what is written than over the first."""
    return quarter(values, 3) - quarter(values, 0)


def checks(numbers: Numbers) -> list[Check]:
    ways, early = numbers["ways"], numbers["steps"].index(80)
    early_of = {way: [run[early] for run in own["fed"]] for way, own in ways.items()}
    growths = {way: [growth(run) for run in own["horizon"]] for way, own in ways.items()}
    last = {way: [run[-1] for run in own["alone"]] for way, own in ways.items()}

    def over(way: str) -> list[float]:
        return [a / b for a, b in zip(early_of[way], early_of["teacher"], strict=True)]

    def less(way: str) -> list[float]:
        return [a - b for a, b in zip(growths[way], growths["teacher"], strict=True)]

    return [
        starts_above(
            "after 80 steps, fed rightly: error of scheduled sampling over the teacher's", over("scheduled"), 1.0
        ),
        starts_above("the same of back-feeding over the teacher's", over("back-feeding"), 3.0),
        starts_above(
            "alone, after teacher forcing: error of the last quarter over the first",
            [quarter(run, 3) / quarter(run, 0) for run in ways["teacher"]["horizon"]],
            2.0,
        ),
        starts_below("growth of the error: scheduled less the teacher's", less("scheduled"), 0.0),
        aside(starts_below("growth of the error: back-feeding less the teacher's", less("back-feeding"), 0.0)),
        below(
            "error alone in the end: scheduled over teacher, mean of 3 seeds",
            sum(last["scheduled"]) / sum(last["teacher"]),
            1.0,
        ),
    ]
