"""5.5c: a small DeiT that learns from few garments, with and without a convolutional teacher (Touvron et al., 2021).

The teacher knows all 25,000 garments of Fashion-MNIST, the student 2,000 of them, mirrored or not, and the teacher is
shown the very image that the student is. Without a teacher both tokens are told the labels: they are two class
tokens. Soft: the class token alone learns, from labels and from all that the teacher finds likely. Hard: a token of its
own learns the teacher's best guess.

The paper has the token ahead, two class tokens alike (a cosine near 1) and class and distillation token less so. Here,
after some hundred steps, the teacher is hardly better than a student without one, and none of this is found.
Needs fashion_mnist_30k below REGARD_DATA.
"""

from dataclasses import replace
from functools import cache
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.figures.figure import Check, Numbers, above, below, seeded, within
from regard.figures.labelled_images import garments
from regard.figures.toys import fit
from regard.figures.vision.hungry import convolutional
from regard.figures.vision.lessons import Course, share, taught, varied
from regard.models.deit import Config, DeiT
from regard.tasks.token import hard_distillation, right, soft_distillation

TITLE = "Through a token of its own"
DECKS = ("004",)
CLAIM = "From a teacher hardly better than the student nothing is won: the token's student is behind, not ahead, here."
COST = 110.0
SEED = 0

SEEDS, KNOWN, STEPS, BATCH, RATE = 3, 2000, 700, 32, 2e-3
TEACHER = Course(steps=400, batch=32, rate=2e-3, moved=0)
SIZES = Config(image=28, patch=7, channels=1, classes=10, dim=64, depth=2, heads=4, hidden=128)
WAYS = ("none", "soft", "hard, with token")


@cache
def teacher() -> nn.Module:
    with seeded(SEED):
        net = convolutional()
    taught(net, *garments("train"), TEACHER, SEED)
    return net.requires_grad_(False)


@cache
def student(way: str, seed: int) -> DeiT:
    images, labels = (part[:KNOWN] for part in garments("train"))
    views = Course(steps=STEPS, moved=0)  # how images are varied
    with seeded(seed):
        net = DeiT(replace(SIZES, pool="class") if way == "soft" else SIZES)

        def loss() -> Tensor:
            some = torch.randint(len(images), (BATCH,))
            shown, wanted = varied(images[some], views), labels[some]
            return told(net, way, shown, wanted) / BATCH

        fit(net.train().parameters(), loss, steps=STEPS, rate=RATE)
    return net.eval()


def told(net: DeiT, way: str, images: Tensor, labels: Tensor) -> Tensor:
    """The loss of one way to learn, summed over images."""
    if way == "soft":
        logits = net(images)
        return soft_distillation(logits, logits, labels, teacher()(images))
    both = net.answers(images)
    if way == "none":
        return (right(both.label, labels) + right(both.teacher, labels)) / 2
    return hard_distillation(both.label, both.teacher, labels, teacher()(images))


@torch.no_grad()
def cosine(net: DeiT, images: Tensor) -> float:
    """Of the two tokens as the last layer leaves them, the mean over images."""
    x = net.features(images)
    return float(F.cosine_similarity(x[:, 0], x[:, 1], dim=-1).mean())


@torch.no_grad()
def heads_agree(net: DeiT, images: Tensor) -> float:
    both = net.answers(images)
    return float((both.label.argmax(-1) == both.teacher.argmax(-1)).double().mean())


def compute() -> Numbers:
    tested, wanted = garments("test")
    seeds = range(SEED, SEED + SEEDS)
    two = ("none", "hard, with token")
    return {
        "tested": len(wanted),
        "teacher": share(teacher(), tested, wanted),
        "right": {way: [share(student(way, seed), tested, wanted) for seed in seeds] for way in WAYS},
        "cosine": {way: [cosine(student(way, seed), tested[:1000]) for seed in seeds] for way in two},
        "agree": {way: [heads_agree(student(way, seed), tested[:1000]) for seed in seeds] for way in two},
    }


TINTS = dict(zip(WAYS, (style.EDGE, style.SECOND, style.WEIGHT), strict=True))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Fashion-MNIST, {numbers['tested']:,} unseen garments; {SEEDS} starts each, dots. The convolutional teacher "
        f"knows all 25,000, and has\n{style.percent(numbers['teacher'], 1)} (dashed); students know {KNOWN:,}. "
        "Expected is the token ahead, and two class tokens alike, near 1.\nNeither is found after so short a training. "
        "Right, the tokens as they leave the last layer."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, other = figure.subplots(1, 2, width_ratios=(1.5, 1))
    dotted(left, {way: numbers["right"][way] for way in WAYS}, percent=True)
    left.axhline(numbers["teacher"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    left.set_ylim(0.6, max(numbers["teacher"], 0.9) + 0.02)
    left.set_title("labelled rightly (the scale begins at 60 %)")
    names = {"none": "two class tokens", "hard, with token": "class and\ndistillation token"}
    dotted(other, {names[way]: some for way, some in numbers["cosine"].items()}, percent=False)
    other.set_ylim(0, 1.12)
    other.set_title("cosine of the two tokens")
    return figure


def dotted(axes: Axes, groups: dict[str, list[float]], *, percent: bool) -> None:
    """A bar for the mean, with its number, and a dot for each start."""
    tints = list(TINTS.values()) if len(groups) == len(TINTS) else [TINTS["none"], TINTS["hard, with token"]]
    for i, (some, tint) in enumerate(zip(groups.values(), tints, strict=True)):
        mean = fmean(some)
        axes.bar(i, mean, 0.6, color=tint)
        axes.plot([i + 0.08 * (j - (len(some) - 1) / 2) for j in range(len(some))], some, "o", color=style.INK, ms=4)
        text = style.percent(mean, 1) if percent else f"{mean:.2f}"
        axes.annotate(
            text, (i, 0.07), xycoords=("data", "axes fraction"), ha="center", size=12, weight="bold", color="white"
        )
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for label in axes.get_xticklabels():
        label.set(size=11, color=style.INK)


def holds(numbers: Numbers) -> list[Check]:
    mean = {way: fmean(some) for way, some in numbers["right"].items()}
    cosines = {way: fmean(some) for way, some in numbers["cosine"].items()}
    lead = 100 * (mean["hard, with token"] - mean["none"])
    token, twins = cosines["hard, with token"], cosines["none"]
    return [
        above("the teacher over a student without one: points", 100 * (numbers["teacher"] - mean["none"]), 0),
        within("hard, with token, over none: points (expected: above 0)", lead, -3, 0),
        below("cosine of class and distillation token", token, 0.99),
        within("cosine of two class tokens (expected: near 1)", twins, 0.3, 0.9),
        within("the same over that of class and distillation token (expected: above 0)", twins - token, -0.2, 0),
    ]
