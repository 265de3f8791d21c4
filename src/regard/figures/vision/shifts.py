"""5.7d: Swin, Swin whose windows never shift, and a ViT of as many weights, on photographs.

Swin Transformer (Liu et al., 2021), table 4, in miniature: 32 wide at first, two layers in each of three stages,
windows of 4 x 4. Without shifts, windows stay for themselves until their patches are merged. The paper's claims are
for a million images; here are 10,000 of CIFAR-10. Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Callable

from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.figures.curves import named
from regard.figures.figure import Check, Numbers, above
from regard.figures.vision.lessons import EVERY, Course, class_of, photos
from regard.figures.vision.starts import ahead, rates
from regard.models.swin import PRESETS, Swin
from regard.models.vit import Config, ViT
from regard.nn.mixers.windows import Windows

TITLE = "Windows that shift"
DECKS = ("004",)
CLAIM = "Of as many weights, Swin learns photographs better than a ViT, and better than itself without shifts."
COST = 500.0
SEED = 0

SEEDS = 2
COURSE = Course(steps=600, batch=32, rate=2e-3, moved=0)


def swin() -> nn.Module:
    return Swin(PRESETS["swin-cifar"])


def unshifted() -> nn.Module:
    net = swin()
    for part in net.modules():
        if isinstance(part, Windows):
            part.shift = 0
    return net


def vit() -> nn.Module:
    return ViT(Config(image=32, patch=4, classes=10, dim=96, depth=5, heads=3, hidden=384, pool="mean"))


NETS: dict[str, Callable[[], nn.Module]] = {"Swin": swin, "Swin without shifts": unshifted, "ViT": vit}
TINTS = {"Swin": style.WEIGHT, "Swin without shifts": style.mix(style.WEIGHT, 0.5), "ViT": style.SECOND}


def compute() -> Numbers:
    known, asked = photos("train"), photos("test")
    found = class_of(NETS, known, asked, COURSE, range(SEED, SEED + SEEDS))
    return {"tested": len(asked[1]), "learned": len(known[1]), **found}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"CIFAR-10, {numbers['learned']:,} photographs of 32 x 32 to learn from, {COURSE.steps} steps of "
        f"{COURSE.batch}. Left, {numbers['tested']:,} others labelled rightly,\na dot for each of {SEEDS} starts; "
        "right, the loss while learning. Expected: Swin ahead of ViT, and of itself without shifts."
    )
    figure = style.page(TITLE, note, height=4.8)
    left, right = figure.subplots(1, 2)
    rates(left, {name: numbers[name]["right"] for name in NETS}, TINTS, chance=0.1)
    labels = [f"{name}\n{numbers[name]['weights'] / 1000:.0f}k weights" for name in NETS]
    left.set_yticks(range(len(NETS)), labels)
    left.set_title("labelled rightly")
    steps = [EVERY * (i + 1) for i in range(COURSE.steps // EVERY)]
    right.set_ylim(1.0, 2.4)
    named(right, {name: (steps, numbers[name]["loss"]) for name in NETS}, TINTS, wide=0.62)
    right.set_title("loss")
    right.set_xlabel("steps")
    return figure


def holds(numbers: Numbers) -> list[Check]:
    right = {name: numbers[name]["right"] for name in NETS}
    sizes = sorted(numbers[name]["weights"] for name in NETS)
    return [
        above("weights, fewest over most", sizes[0] / sizes[-1], 0.97),
        *(above(f"{name}: share of right labels, the worst start", min(right[name]), 0.3) for name in NETS),
        above("Swin over ViT: points", ahead(right["Swin"], right["ViT"]), 0),
        above("Swin over itself without shifts: points", ahead(right["Swin"], right["Swin without shifts"]), 0),
    ]
