"""5.3b: how many images a ViT needs, against a convolutional net (Dosovitskiy et al., 2021, figures 3 and 4, in small).

Garments of Fashion-MNIST: 500, 2,000, 8,000 and all 25,000. A convolution knows beforehand that what belongs together
is near, and that it is the same everywhere; a ViT has to learn it from images. More images are learned from for longer,
both nets for as many steps, with no image changed.

Differs from the paper: the sets are subsets of one, and there is no pre-training; a layer is twice as wide within, not
four times, so that minutes will do. Needs fashion_mnist_30k below REGARD_DATA.
"""

from collections.abc import Callable
from functools import cache
from statistics import fmean

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.figures.figure import Check, Numbers, above, below, seeded, within
from regard.figures.labelled_images import garments
from regard.figures.vision.lessons import Course, share, taught
from regard.models.resnet import Config as OfResNet
from regard.models.resnet import ResNet
from regard.models.vit import Config as OfViT
from regard.models.vit import ViT
from regard.zoo import parameters

TITLE = "A ViT is hungry for images"
DECKS = ("002", "003", "004")
CLAIM = "With few images a convolutional net is far ahead of a ViT; with more of them, and more steps, the gap narrows."
COST = 110.0
SEED = 0

SEEDS = 1
STEPS = {500: 100, 2000: 150, 8000: 250, 25000: 420}  # images, and how long they are learned from
BATCH, RATE = 24, 1e-3


def vit() -> nn.Module:
    """The entry's ViT-tiny: 6 layers of width 96, patches of 4 x 4."""
    return ViT(OfViT(image=28, patch=4, channels=1, classes=10, dim=96, depth=6, heads=3, hidden=192, dropout=0.1))


def convolutional() -> nn.Module:
    """One and twice two convolutions of 3 x 3, with batch norm."""
    return ResNet(
        OfResNet(width=16, stem="small", layer="plain", depths=(1, 2, 2), dims=(16, 32, 64), classes=10, channels=1)
    )


NETS: dict[str, Callable[[], nn.Module]] = {"convolutional": convolutional, "ViT": vit}


@cache
def learned(name: str, count: int, seed: int) -> nn.Module:
    """From the first so many of the images, in an order that the seed decides."""
    images, labels = garments("train")
    with seeded(1000 + seed):
        some = torch.randperm(len(images))[:count]
    with seeded(seed):
        net = NETS[name]()
    course = Course(steps=STEPS[count], batch=BATCH, rate=RATE, mirrored=False, moved=0)
    taught(net, images[some], labels[some], course, seed)
    return net


def compute() -> Numbers:
    tested, wanted = garments("test")
    return {
        "tested": len(wanted),
        "weights": {name: parameters(make()) for name, make in NETS.items()},
        "right": {
            name: [
                [share(learned(name, count, seed), tested, wanted) for seed in range(SEED, SEED + SEEDS)]
                for count in STEPS
            ]
            for name in NETS
        },
    }


TINTS = {"convolutional": style.SECOND, "ViT": style.WEIGHT}


def draw(numbers: Numbers) -> Figure:
    sizes = ", ".join(f"{name} {count / 1000:.0f}k" for name, count in numbers["weights"].items())
    note = (
        f"Fashion-MNIST, {numbers['tested']:,} unseen images; weights: {sizes}. Both learn from the same images for "
        f"as many\nsteps, {min(STEPS.values())} to {max(STEPS.values()):,}, the more the more images there are; "
        f"{SEEDS} start{'s' * (SEEDS > 1)}. Right, how many points the ViT is behind."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    counts = list(STEPS)
    for name, tint in TINTS.items():
        means = [100 * fmean(some) for some in numbers["right"][name]]
        left.plot(counts, means, "o-", color=tint)
        for count, some in zip(counts, numbers["right"][name], strict=True):
            left.plot([count] * len(some), [100 * one for one in some], ".", color=tint, ms=4)
        style.end_label(left, counts[-1], means[-1], name, tint, dy=9 if name == "convolutional" else -9)
    left.set_title("labelled rightly, %")
    left.set_xscale("log")
    left.set_xticks(counts, [f"{count:,}" for count in counts])
    left.set_xlim(counts[0] * 0.85, counts[-1] * 3.6)
    left.minorticks_off()
    left.set_xlabel("images to learn from")
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    bars(right, numbers)
    return figure


def bars(axes: Axes, numbers: Numbers) -> None:
    style.bars(axes, [f"{count:,}" for count in STEPS], gaps(numbers), form="{:.1f}".format)
    axes.set_title("points behind")
    axes.set_xlabel("images to learn from")


def gaps(numbers: Numbers) -> list[float]:
    """Points by which the convolutional net is ahead, for each number of images."""
    one, other = ([100 * fmean(some) for some in numbers["right"][name]] for name in ("convolutional", "ViT"))
    return [x - y for x, y in zip(one, other, strict=True)]


def holds(numbers: Numbers) -> list[Check]:
    found, right = gaps(numbers), numbers["right"]
    return [
        above("500 images: the convolutional net is ahead by, points", found[0], 2),
        below("all images: the gap over that of 500", found[-1] / found[0], 0.7),
        *(
            above(f"{name}: points won from 500 images to all", 100 * (fmean(some[-1]) - fmean(some[0])), 5)
            for name, some in right.items()
        ),
        within("convolutional, all images: share (expected: above 0.85)", fmean(right["convolutional"][-1]), 0.7, 0.85),
    ]
