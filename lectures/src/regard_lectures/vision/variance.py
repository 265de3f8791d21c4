"""5.8b: how strong activations are after each of 24 blocks, Swin against Swin v2, before training and after some of it.

Swin Transformer V2 (Liu et al., 2022), section 3.1 and its figure 2, in miniature: one stage of 24 blocks, 32 wide. In
Swin each branch adds what it likes to what has come so far; in v2 what a branch says is normed before it is added.

The bound for v2 is met narrowly, and not in every start. Batches are of 64, as in the first run; with 32 in as many
steps, which is half of the images, v2 grew 2.23- to 2.37-fold in three starts, beyond it, and Swin 7- to 11-fold.
Needs cifar10_subset below REGARD_DATA.
"""

from functools import partial
from statistics import fmean

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models import swin, swinv2
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, aside, plain, seeded, starts_above, starts_below
from regard_lectures.toys import means
from regard_lectures.vision.lessons import Course, photos, pupil

TITLE = "Louder with depth"
DECKS = ("004",)
CLAIM = "In Swin activations grow with depth, more so as it learns; in Swin v2, which norms what branches say, hardly."
EXPECTED = (
    "Over 24 blocks the variance of activations grows in Swin, over twofold after training; in Swin v2 it stays "
    "bounded, below twofold."
)
FOUND = (
    "After training the variance grows 10.4-, 8.8- and 8.8-fold over 24 blocks of Swin and 1.80-, 1.95- and 2.06-fold "
    "over those of v2, in 2 of 3 starts below the bound."
)
COST = 575.0
SEED = 0
SEEDS = 3

DEPTH, LOOKED = 24, 64
COURSE = Course("photos", steps=500, batch=64)
TINTS = {"Swin": style.SECOND, "Swin v2": style.WEIGHT}
TIMES = ("before training", "after training")


def build(name: str) -> nn.Module:
    if name == "Swin":
        return swin.Swin(
            swin.Config(image=32, patch=4, classes=10, dim=32, hidden=64, window=4, depth=(DEPTH,), heads=(2,))
        )
    return swinv2.SwinV2(
        swinv2.Config(image=32, patch=4, classes=10, dim=32, hidden=64, window=4, depth=(DEPTH,), heads=(2,))
    )


@torch.no_grad()
def loudness(net: nn.Module, images: Tensor) -> list[float]:
    """The variance of all activations after each block."""
    with capture(net, "stages.0.blocks.*.stream") as seen:
        net.eval()(images)
    found: list[float] = plain(torch.stack([records[0].var() for records in seen.values()]), 4)
    return found


def compute() -> Numbers:
    tested = photos("test")[0][:LOOKED]
    numbers: Numbers = {}
    for name in TINTS:
        numbers[name] = {"before training": [], "after training": [], "loss": []}
        for seed in range(SEED, SEED + SEEDS):
            with seeded(seed):
                numbers[name]["before training"].append(loudness(build(name), tested))
            one = pupil(f"{name}, deep", partial(build, name), COURSE, seed)
            numbers[name]["after training"].append(loudness(one.net, tested))
            numbers[name]["loss"].append([one.losses[0], round(fmean(one.losses[-10:]), 4)])
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Variance of all activations after each of {DEPTH} blocks, 32 wide, of {LOOKED} photographs (CIFAR-10). "
        f"Left, as the nets start;\nright, after {COURSE.steps} steps of training; {SEEDS} starts, thin, and their "
        "mean. The scale is logarithmic, the same on both sides."
    )
    figure = style.page(TITLE, note, height=4.9)
    panels = figure.subplots(1, 2, sharey=True)
    blocks = list(range(1, DEPTH + 1))
    top = max(max(start) for name in TINTS for when in TIMES for start in numbers[name][when])
    for axes, when in zip(panels, TIMES, strict=True):
        axes.set_yscale("log")
        axes.set_ylim(0.5, 1.6 * top)
        for name, tint in TINTS.items():
            for start in numbers[name][when]:
                axes.plot(blocks, start, color=tint, lw=1, alpha=0.5)
            mean = means(numbers[name][when])
            axes.plot(blocks, mean, color=tint)
            apart = 0 if when == TIMES[1] else 7 if name == "Swin" else -7  # at first they are alike
            style.end_label(axes, DEPTH, mean[-1], name, tint, dy=apart)
        axes.set(xlim=(0, 1.3 * DEPTH), xticks=[1, 6, 12, 18, 24], xlabel="block", title=when)
        ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50, 100, 200) if tick < 1.6 * top]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def grown(numbers: Numbers, name: str, when: str) -> list[float]:
    """After the last block, over after the first, in each start."""
    return [start[-1] / start[0] for start in numbers[name][when]]


def checks(numbers: Numbers) -> list[Check]:
    first, last = TIMES
    losses = {name: [after / before for before, after in numbers[name]["loss"]] for name in TINTS}
    return [
        *(aside(starts_below(f"{name}: loss after training over before", some, 0.95)) for name, some in losses.items()),
        aside(starts_above("Swin before training: last block over first", grown(numbers, "Swin", first), 1.0)),
        aside(starts_below("Swin v2 before training: last block over first", grown(numbers, "Swin v2", first), 1.001)),
        starts_above("Swin after training: last block over first", grown(numbers, "Swin", last), 2.0),
        starts_below("Swin v2 after training: the same", grown(numbers, "Swin v2", last), 2.0),
    ]
