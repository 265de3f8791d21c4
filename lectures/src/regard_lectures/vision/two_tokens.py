"""5.5: how a DeiT is distilled: two tokens, two heads, two losses, with the numbers of one photograph.

The nets are those of 5.5c. Asked is an unseen photograph of which the teacher says another thing than the label, so
that each head is told something of its own: of 500, the one whose heads have learned that best. It is drawn by the mean
colour of each patch. Needs cifar10_subset below REGARD_DATA.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.tasks.token import hard_distillation
from regard_lectures.figure import Check, Numbers, below, close, equal, plain
from regard_lectures.vision.distilled import SIZES, student, teacher
from regard_lectures.vision.lessons import CLASSES, photos, pixels

TITLE = "Two tokens, two teachers"
DECKS = ("004",)
CLAIM = "The loss is half of what the class token says of the label and half of what the other says of the teacher."
EXPECTED = (
    "The loss is half the cross-entropy of the class token with the label and half that of the distillation token "
    "with the teacher's guess; in use both heads are averaged."
)
FOUND = (
    "The loss, 0.535, is the mean of both to within 1e-5; in use the heads' mean is exact, and a head learns 0 from "
    "the other's loss."
)
COST = 1200.0
SEED = 0

ASKED, BEST = 500, 2  # photographs; likeliest classes that are written
WAY = "hard, with token"


def compute() -> Numbers:
    images, labels = (part[:ASKED] for part in photos("test"))
    net = student(WAY, SEED)
    with torch.no_grad():
        theirs = teacher()(images)
        guesses = theirs.argmax(-1)
        every = net.answers(images)
        told = F.cross_entropy(every.label, labels, reduction="none")
        told += F.cross_entropy(every.teacher, guesses, reduction="none")
        one = int(torch.where(guesses != labels, told, torch.inf).argmin())
        both = net.answers(images[one : one + 1])
        said = net(images[one : one + 1])
    label, guess = labels[one : one + 1], guesses[one : one + 1]
    return {
        "patches": plain(F.avg_pool2d(pixels("test")[one], SIZES.patch).movedim(0, -1), 3),
        "label": int(label),
        "guess": int(guess),
        "class token": plain(both.label.softmax(-1)[0], 4),
        "distillation token": plain(both.teacher.softmax(-1)[0], 4),
        "teacher": plain(theirs[one].softmax(-1), 4),
        "mean": plain(said.softmax(-1)[0], 4),
        "losses": [float(F.cross_entropy(both.label, label)), float(F.cross_entropy(both.teacher, guess))],
        "loss": float(hard_distillation(both.label, both.teacher, label, theirs[one : one + 1])),
        "off": float((said - (both.label + both.teacher) / 2).abs().max()),
        "alone": reach(images[one : one + 1], label, guess),
    }


def reach(images: Tensor, label: Tensor, guess: Tensor) -> list[float]:
    """What the label's loss teaches the distillation token's head, and the guess's that of the class token: nothing."""
    net = student(WAY, SEED)
    found = []
    for loss, head in ((0, net.teacher_head), (1, net.head)):
        both = net.answers(images)
        value = F.cross_entropy((both.label, both.teacher)[loss], (label, guess)[loss])
        assert head is not None
        (slope,) = torch.autograd.grad(value, head.weight, allow_unused=True)
        found.append(0.0 if slope is None else float(slope.abs().max()))
    return found


def draw(numbers: Numbers) -> Figure:
    label, guess = CLASSES[numbers["label"]], CLASSES[numbers["guess"]]
    note = (
        f"An unseen photograph, by its label: {label}; by the convolutional teacher: {guess}.\n"
        "In training each head is told its own answer; in use the two are averaged."
    )
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    picture(axes, numbers["patches"])
    tokens(axes)
    heads(axes, numbers)
    return figure


def picture(axes: Axes, patches: list[list[list[float]]]) -> None:
    """The image, cut into its patches, each by its mean colour."""
    size, count = (axes.get_xlim(), axes.get_ylim()), len(patches)
    axes.imshow(patches, extent=(0.35, 2.15, 0.6, 2.4), interpolation="nearest", zorder=2)
    axes.set(xlim=size[0], ylim=size[1], aspect="auto")
    for i in range(count + 1):
        at = 1.8 * i / count
        axes.plot([0.35 + at] * 2, [0.6, 2.4], color="white", lw=1.4, zorder=3)
        axes.plot([0.35, 2.15], [0.6 + at] * 2, color="white", lw=1.4, zorder=3)
    style.write(axes, 1.25, 0.36, f"{count * count} patches", color=style.SOFT)


TOKENS = (("class", style.QUERY), ("distil", style.WEIGHT), *[("", style.EDGE)] * 6)
LEFT, WIDE = 2.75, 0.56  # of the row of tokens, and from one to the next


def tokens(axes: Axes) -> None:
    style.arrow(axes, (2.22, 1.5), (2.7, 1.5))
    for y in (1.25, 3.2):
        for i, (name, tint) in enumerate(TOKENS):
            fill = style.mix(tint, 0.16) if name else style.SUNK
            style.box(axes, LEFT + WIDE * i, y, WIDE - 0.08, 0.5, name, edge=tint, fill=fill, size=8.5)
        style.write(axes, LEFT + WIDE * 8 + 0.12, y + 0.25, "…", size=14, color=style.SOFT)
    layers = f"{SIZES.depth} layers: all look at all"
    style.box(axes, LEFT - 0.08, 2.05, WIDE * 8 + 0.3, 0.85, layers, fill=style.VALUE_WASH)
    for i in range(len(TOKENS)):
        middle = LEFT + WIDE * i + (WIDE - 0.08) / 2
        style.arrow(axes, (middle, 1.77), (middle, 2.03), line=1.1, head=6)
        style.arrow(axes, (middle, 2.92), (middle, 3.18), line=1.1, head=6)
    text = "two learned tokens, then the embedded patches"
    style.write(axes, LEFT, 1.05, text, ha="left", color=style.SOFT, size=10)


def heads(axes: Axes, numbers: Numbers) -> None:
    """Above the two tokens what their heads say, and what each is told; on the right what becomes of it."""
    sides = (
        ("class token", style.QUERY, 0.35, "label", numbers["label"], style.INK),
        ("distillation token", style.WEIGHT, 4.75, "teacher", numbers["guess"], style.SECOND),
    )
    for i, (name, tint, x, who, what, ink) in enumerate(sides):
        start = LEFT + WIDE * i + (WIDE - 0.08) / 2
        style.route(axes, [(start, 3.72), (start, 3.85), (x + 1.2, 3.85), (x + 1.2, 4.03)], color=tint)
        style.box(axes, x, 4.05, 2.35, 0.95, edge=tint)
        style.write(axes, x + 0.14, 4.8, f"head of the {name}", ha="left", size=9.5, color=tint)
        style.write(axes, x + 0.14, 4.4, likeliest(numbers[name]), ha="left", size=9.5, family=style.MONO)
        style.write(axes, x + 2.47, 4.66, f"{who}: {CLASSES[what]}", ha="left", size=10.5, color=ink, weight="bold")
        style.write(axes, x + 2.47, 4.38, f"loss {numbers['losses'][i]:.2f}", ha="left", size=10.5)
    first, second = numbers["losses"]
    total = f"({first:.2f} + {second:.2f}) / 2 = {numbers['loss']:.2f}"
    style.write(axes, 7.85, 3.62, "the loss in training", ha="left", size=10, color=style.SOFT)
    style.write(axes, 7.85, 3.36, total, ha="left", family=style.MONO, size=9.5)
    style.write(axes, 7.85, 2.86, "in use, the mean of both", ha="left", size=10, color=style.SOFT)
    style.write(axes, 7.85, 2.46, likeliest(numbers["mean"]), ha="left", family=style.MONO, size=9.5)
    style.route(axes, [(2.22, 0.8), (7.73, 0.8)], color=style.SECOND)
    style.box(axes, 7.75, 0.6, 1.95, 1.0, edge=style.SECOND, fill=style.SECOND_WASH)
    style.write(axes, 7.87, 1.38, "convolutional teacher", ha="left", size=9.5, color=style.SECOND)
    style.write(axes, 7.87, 0.96, likeliest(numbers["teacher"]), ha="left", size=9.5, family=style.MONO)


def likeliest(shares: list[float]) -> str:
    best = sorted(range(len(shares)), key=lambda kind: -shares[kind])[:BEST]
    return "\n".join(f"{style.percent(shares[kind])} {CLASSES[kind]}" for kind in best)


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal("label and teacher disagree", numbers["label"] != numbers["guess"], True),
        close("the loss is the mean of both", numbers["loss"], sum(numbers["losses"]) / 2, 1e-5),
        below("in use: the mean of both heads, to within", numbers["off"], 1e-5),
        equal("a head learns nothing from the other's loss", max(numbers["alone"]), 0.0),
    ]
