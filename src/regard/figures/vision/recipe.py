"""5.5d: the parts of DeiT's recipe, one at a time and all together, on few garments (Touvron et al., 2021, table 8).

A small ViT learns from 1,000 garments of Fashion-MNIST: with nothing else, with each part alone, and with all. In a
short training most parts only make learning harder; they pay when one learns for long, since without them the net knows
its images by heart. Only that is claimed.

Differs from the paper: parts are added to nothing, not taken from all; there are 10 classes and 28 x 28 pixels; and
repeated augmentation has a batch of its own copies. Needs fashion_mnist_30k below REGARD_DATA.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.draws import AUGMENT, MIX, chance
from regard.data.erasing import erased
from regard.data.mixing import draw_mix, mixed, mixed_labels
from regard.data.randaugment import RandAugment
from regard.figures.figure import Check, Numbers, above, seeded
from regard.figures.labelled_images import garments, read
from regard.figures.toys import fit
from regard.figures.vision.lessons import share
from regard.figures.vision.strip import MEAN, SPREAD
from regard.models.vit import Config, ViT

TITLE = "A recipe, part by part"
DECKS = ("004",)
CLAIM = "Learning for long from few images, the full recipe beats none; in a short training no such thing is claimed."
COST = 110.0
SEED = 0

KNOWN, SHORT, LONG, BATCH, RATE = 1000, 120, 800, 32, 2e-3
TESTED = 2000


@dataclass(frozen=True)
class Recipe:
    """The defaults are nothing; ``FULL`` has DeiT's numbers."""

    mixup: float = 0.0
    cutmix: float = 0.0
    erasing: float = 0.0
    randaugment: bool = False
    smoothing: float = 0.0
    drop_path: float = 0.0
    copies: int = 1


PARTS = {
    "mixup": Recipe(mixup=0.8),
    "CutMix": Recipe(cutmix=1.0),
    "Random Erasing": Recipe(erasing=0.25),
    "RandAugment": Recipe(randaugment=True),
    "label smoothing": Recipe(smoothing=0.1),
    "stochastic depth": Recipe(drop_path=0.1),
    "repeated augmentation": Recipe(randaugment=True, copies=3),
}
NONE, FULL = Recipe(), Recipe(0.8, 1.0, 0.25, True, 0.1, 0.1, 3)
WAYS = {"none": NONE, **PARTS, "full recipe": FULL}


def learned(recipe: Recipe, steps: int, seed: int) -> ViT:
    pixels, labels = (part[:KNOWN] for part in read("fashion_mnist_30k", "train"))
    whole = (255 * pixels).round().byte()
    with seeded(seed):
        net = ViT(
            Config(
                image=28, patch=7, channels=1, classes=10, dim=64, depth=4, heads=4, hidden=128,
                drop_path=recipe.drop_path,
            )
        )  # fmt: skip
        done = 0

        def loss() -> Tensor:
            nonlocal done
            done += 1
            rows = torch.randint(KNOWN, (-(-BATCH // recipe.copies),)).repeat_interleave(recipe.copies)[:BATCH]
            images, wanted = batch(whole[rows], labels[rows], recipe, seed, done)
            return F.cross_entropy(net(images), wanted)

        fit(net.train().parameters(), loss, steps=steps, rate=RATE)
    return net.eval()


def batch(pixels: Tensor, labels: Tensor, recipe: Recipe, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """(b, 1, h, w) of whole numbers, (b,) -> images as the net is shown them, and a share for each class, (b, c)"""
    if recipe.randaugment:
        change = RandAugment()
        pixels = torch.stack([change(one, chance(AUGMENT, seed, step, i)) for i, one in enumerate(pixels)])
    images = (pixels / 255 - MEAN) / SPREAD
    if recipe.erasing:
        numbers = [chance(AUGMENT, seed + 1, step, i) for i in range(len(images))]
        images = torch.stack([erased(*both, chance=recipe.erasing) for both in zip(images, numbers, strict=True)])
    mix = draw_mix(chance(MIX, seed, step), (28, 28), mixup=recipe.mixup, cutmix=recipe.cutmix)
    return mixed(images, images.flip(0), mix), mixed_labels(labels, labels.flip(0), mix, 10, recipe.smoothing)


def compute() -> Numbers:
    tested, wanted = (part[:TESTED] for part in garments("test"))
    known, names = (part[:KNOWN] for part in garments("train"))
    numbers: Numbers = {"short": {}, "long": {}, "known": {}}
    for name, recipe in WAYS.items():
        numbers["short"][name] = share(learned(recipe, SHORT, SEED), tested, wanted)
    for name, recipe in (("none", NONE), ("full recipe", FULL)):
        net = learned(recipe, LONG, SEED)
        numbers["long"][name] = share(net, tested, wanted)
        numbers["known"][name] = share(net, known, names)
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"A ViT of 4 layers, {KNOWN:,} garments to learn from, {TESTED:,} unseen to test, one start each. Right, for "
        f"{LONG // SHORT} times as long:\nof those it learned from, the net without recipe then knows "
        f"{style.percent(numbers['known']['none'])}, with all of it {style.percent(numbers['known']['full recipe'])}."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    lying(left, numbers["short"])
    left.set_title(f"{SHORT} steps, labelled rightly")
    lying(right, numbers["long"])
    right.set_title(f"{LONG:,} steps")
    return figure


def lying(axes: Axes, shares: dict[str, float]) -> None:
    for i, (name, found) in enumerate(shares.items()):
        tint = {"none": style.EDGE, "full recipe": style.WEIGHT}.get(name, style.mix(style.WEIGHT, 0.6))
        axes.barh(i, found, 0.66, color=tint)
        axes.text(
            found - 0.01, i, style.percent(found, 1), va="center", ha="right", color="white", weight="bold", size=11
        )
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set(xlim=(0, 1), ylim=(len(shares) - 0.5, -0.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11, color=style.INK)


def holds(numbers: Numbers) -> list[Check]:
    long, short = numbers["long"], numbers["short"]
    return [
        above("full recipe over none, long training: points", 100 * (long["full recipe"] - long["none"]), 0),
        above(
            "full recipe: points won by learning longer",
            100 * (long["full recipe"] - numbers["short"]["full recipe"]),
            0,
        ),
        above("without it the net knows its images by heart: share", numbers["known"]["none"], 0.97),
        above("every part alone: labelled rightly, share", min(short.values()), 0.5),
    ]
