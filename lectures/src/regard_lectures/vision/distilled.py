"""5.5c: a small DeiT that learns photographs, with and without a convolutional teacher (Touvron et al., 2021, table 3).

The teacher is the convolutional net of 5.11b, taught on the same 10,000 photographs of CIFAR-10, and is shown the very
image that the student is. Without a teacher both tokens are told the labels: they are two class tokens. Soft: the class
token alone learns, from labels and from all that the teacher finds likely. Hard: a token of its own learns the
teacher's best guess.

The paper has the token ahead, two class tokens alike (a cosine near 1) and class and distillation token less so. Here
neither was found: the three ways are within the spread of their starts, and the two tokens as alike as two class
tokens. This teacher has learned from the same 10,000 photographs and says of them hardly anything that their labels do
not say; the paper's is better, and its student learns for 300 epochs of changed images, of which labels say less.
Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.deit import Config, DeiT
from regard.tasks.token import hard_distillation, label_loss, soft_distillation
from regard_lectures.figure import Check, Numbers, above, aside, starts_above, starts_below
from regard_lectures.vision.lessons import Loss, photos, pupil, share
from regard_lectures.vision.small import COURSE, FRONT, SEEDS
from regard_lectures.vision.starts import leads

TITLE = "Through a token of its own"
DECKS = ("004",)
CLAIM = "A token that learns a teacher's guesses makes a small DeiT better, and comes to differ from the class token."
EXPECTED = (
    "Hard distillation through a token of its own is ahead of none; class and distillation token are less alike than "
    "two class tokens, whose cosine is near 1."
)
FOUND = (
    "The token has 55.9 %, none 56.1 % and soft distillation 56.7 %, the token ahead in 1 of 3 starts; class and "
    "distillation token (cosine 0.989) are as alike as two class tokens (0.982)."
)
COST = 3500.0
SEED = 0

SIZES = Config(image=32, patch=4, classes=10, dim=64, depth=4, heads=4, hidden=128)
LOOKED = 1000


@cache
def teacher() -> nn.Module:
    return pupil("CNN", FRONT["CNN"], COURSE, SEED).net.requires_grad_(False)


def alone(net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    assert isinstance(net, DeiT)
    both = net.answers(images)
    return (label_loss(both.label, labels) + label_loss(both.teacher, labels)) / 2 / len(images)


def softly(net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    logits = net(images)
    return soft_distillation(logits, logits, labels, teacher()(images)) / len(images)


def by_token(net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    assert isinstance(net, DeiT)
    both = net.answers(images)
    return hard_distillation(both.label, both.teacher, labels, teacher()(images)) / len(images)


WAYS: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "none": (lambda: DeiT(SIZES), alone),
    "soft": (lambda: DeiT(replace(SIZES, pool="class")), softly),
    "hard, with token": (lambda: DeiT(SIZES), by_token),
}
TWO = ("none", "hard, with token")  # ways with two heads


def student(way: str, seed: int) -> DeiT:
    make, loss = WAYS[way]
    net = pupil(f"student {way}", make, COURSE, seed, loss).net
    assert isinstance(net, DeiT)
    return net


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
    tested, wanted = photos("test")
    nets = {way: [student(way, seed) for seed in SEEDS] for way in WAYS}
    return {
        "tested": len(wanted),
        "teacher": share(teacher(), tested, wanted),
        "right": {way: [share(net, tested, wanted) for net in own] for way, own in nets.items()},
        "cosine": {way: [cosine(net, tested[:LOOKED]) for net in nets[way]] for way in TWO},
        "agree": {way: [heads_agree(net, tested[:LOOKED]) for net in nets[way]] for way in TWO},
    }


TINTS = dict(zip(WAYS, (style.EDGE, style.SECOND, style.WEIGHT), strict=True))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"CIFAR-10, 10,000 photographs to learn from, {numbers['tested']:,} unseen; {len(SEEDS)} starts each, dots. "
        f"The convolutional teacher learned from\nthe same, and has {style.percent(numbers['teacher'], 1)} (dashed). "
        "Expected by the paper: the token ahead, and two class tokens more alike than\nclass and distillation token. "
        "Neither was found. Right, the tokens as they leave the last layer."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, other = figure.subplots(1, 2, width_ratios=(1.5, 1))
    dotted(left, {way: numbers["right"][way] for way in WAYS}, percent=True)
    left.axhline(numbers["teacher"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    left.set_ylim(0, numbers["teacher"] + 0.1)
    left.set_title("labelled rightly")
    names = {"none": "two class tokens", "hard, with token": "class and\ndistillation token"}
    dotted(other, {names[way]: some for way, some in numbers["cosine"].items()}, percent=False)
    other.set_ylim(0, 1.12)
    other.set_title("cosine of the two tokens")
    return figure


def dotted(axes: Axes, groups: dict[str, list[float]], *, percent: bool) -> None:
    """A bar for the mean, with its number, and a dot for each start."""
    tints = list(TINTS.values()) if len(groups) == len(TINTS) else [TINTS[way] for way in TWO]
    for i, (some, tint) in enumerate(zip(groups.values(), tints, strict=True)):
        mean = fmean(some)
        axes.bar(i, mean, 0.6, color=tint)
        axes.plot([i + 0.08 * (j - (len(some) - 1) / 2) for j in range(len(some))], some, "o", color=style.INK, ms=4)
        text = style.percent(mean, 1) if percent else f"{mean:.2f}"
        axes.annotate(text, (i, max(some)), (0, 8), textcoords="offset points", ha="center", size=12, weight="bold")
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for label in axes.get_xticklabels():
        label.set(size=11, color=style.INK)


def checks(numbers: Numbers) -> list[Check]:
    right, cosines = numbers["right"], numbers["cosine"]
    none, token = TWO
    apart = [two - one for two, one in zip(cosines[none], cosines[token], strict=True)]
    return [
        aside(
            above("the teacher over a student without one: points", 100 * (numbers["teacher"] - fmean(right[none])), 1)
        ),
        starts_above("hard, with token, over none: points", leads(right[token], right[none]), 0),
        starts_above("cosine of two class tokens over that of class and distillation token", apart, 0),
        aside(starts_below("cosine of class and distillation token", cosines[token], 0.99)),
        aside(starts_above("cosine of two class tokens", cosines[none], 0.9)),
    ]
