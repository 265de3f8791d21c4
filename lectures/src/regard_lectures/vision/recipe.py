"""5.5d: the parts of DeiT's recipe, one at a time and all together, on few photographs (Touvron et al., 2021, table 8).

A small ViT learns from 500 photographs of CIFAR-10, mirrored and moved by some pixels: with nothing else, with each
part alone, and with all. In a short training most parts only make learning harder; they pay when one learns for long,
since without them the net knows its images by heart. Only that is claimed. How many photographs and steps was
settled with the run: a first plan had 2,000 of them and 3,000 steps.

Differs from the paper: parts are added to nothing, not taken from all. What teaches through a token of its own is 5.5c;
a finer resolution comes after such a training. Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.data.counter_rng import AUGMENT, MIX, philox
from regard.modalities.images.erasing import random_erase
from regard.modalities.images.mixing import draw_mix, mix_images, mix_labels
from regard.modalities.images.randaugment import RandAugment
from regard.models.vit import Config, ViT
from regard.nn.initialization import init_deviation, start_truncated
from regard_lectures.figure import Check, Numbers, above, aside, starts_above
from regard_lectures.vision.lessons import CLASSES, MEAN, SIDE, SPREAD, Course, Pupil, known, photos, pupil, share
from regard_lectures.vision.starts import leads

TITLE = "A recipe, part by part"
DECKS = ("004",)
CLAIM = "Learning for long from few images, the full recipe beats none; in a short training no such thing is claimed."
EXPECTED = (
    "Learning for long from few images, a net with the full recipe labels more images rightly than one without, which"
    " knows its own by heart."
)
FOUND = (
    "After long training the full recipe has 39.1 %, none 34.2 %, ahead by 4.85 and 4.90 points in 2 of 2 starts; "
    "without it the net knows 100 % of its images, with it 68 %."
)
COST = 2700.0
SEED = 0
SEEDS = range(2)

SHORT, LONG = (Course("photos", steps=steps, known=500) for steps in (500, 6000))


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
    truncated: bool = False  # first weights of a truncated normal, not by Xavier's rule


PARTS = {
    "mixup": Recipe(mixup=0.8),
    "CutMix": Recipe(cutmix=1.0),
    "Random Erasing": Recipe(erasing=0.25),
    "RandAugment": Recipe(randaugment=True),
    "label smoothing": Recipe(smoothing=0.1),
    "stochastic depth": Recipe(drop_path=0.1),
    "repeated augmentation": Recipe(randaugment=True, copies=3),
    "truncated normal": Recipe(truncated=True),
}
NONE, FULL = Recipe(), Recipe(0.8, 1.0, 0.25, True, 0.1, 0.1, 3, True)
WAYS = {"none": NONE, **PARTS, "full recipe": FULL}


def vit(recipe: Recipe) -> nn.Module:
    net = ViT(
        Config(
            image=32, patch=4, classes=10, dim=64, depth=4, heads=4, hidden=128, pool="mean",
            drop_path=recipe.drop_path,
        )
    )  # fmt: skip
    if recipe.truncated:
        start_truncated(net, init_deviation(net.config.dim))
    return net


def learned(name: str, course: Course, seed: int) -> Pupil:
    recipe = WAYS[name]
    return pupil(f"recipe {name}", partial(vit, recipe), course, seed, partial(cooked, recipe, seed))


def cooked(recipe: Recipe, seed: int, net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    images, wanted = served(recipe, images, labels, seed, step)
    return F.cross_entropy(net(images), wanted)


def served(recipe: Recipe, images: Tensor, labels: Tensor, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """As the net is shown them, with a share for each class. Of copies there are so many in place of other images.

    (b, 3, h, w), (b,) -> (b, 3, h, w), (b, c)
    """
    count, fewer = len(images), -(-len(images) // recipe.copies)
    images, labels = (part[:fewer].repeat_interleave(recipe.copies, 0)[:count] for part in (images, labels))
    mean, spread = (torch.tensor(part)[:, None, None] for part in (MEAN, SPREAD))
    if recipe.randaugment:
        change = RandAugment()
        whole = (255 * (images * spread + mean)).round().clamp(0, 255).byte()
        changed = [change(one, philox(AUGMENT, seed, step, i)) for i, one in enumerate(whole)]
        images = (torch.stack(changed) / 255 - mean) / spread
    if recipe.erasing:
        numbers = [philox(AUGMENT, seed + 1, step, i) for i in range(count)]
        images = torch.stack([random_erase(*both, chance=recipe.erasing) for both in zip(images, numbers, strict=True)])
    mix = draw_mix(philox(MIX, seed, step), (SIDE, SIDE), mixup=recipe.mixup, cutmix=recipe.cutmix)
    wanted = mix_labels(labels, labels.flip(0), mix, len(CLASSES), recipe.smoothing)
    return mix_images(images, images.flip(0), mix), wanted


def compute() -> Numbers:
    asked = photos("test")
    numbers: Numbers = {"tested": len(asked[1]), "short": {}, "long": {}, "known": {}}
    for name in WAYS:
        numbers["short"][name] = [share(learned(name, SHORT, seed).net, *asked) for seed in SEEDS]
    for name in ("none", "full recipe"):
        nets = [learned(name, LONG, seed).net for seed in SEEDS]
        numbers["long"][name] = [share(net, *asked) for net in nets]
        numbers["known"][name] = fmean(share(net, *known(LONG, seed)) for seed, net in zip(SEEDS, nets, strict=True))
    return numbers


def draw(numbers: Numbers) -> Figure:
    by_heart = [style.percent(numbers["known"][name]) for name in ("none", "full recipe")]
    note = (
        f"A ViT of 4 layers, {LONG.known:,} photographs to learn from, {numbers['tested']:,} unseen to test; bars are "
        f"means of {len(SEEDS)} starts, dots.\nRight, for {LONG.steps / SHORT.steps:.0f} times as long: of those it "
        f"learned from, the net without recipe then knows {by_heart[0]}, with all of it {by_heart[1]}."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for axes, course, shares in ((left, SHORT, numbers["short"]), (right, LONG, numbers["long"])):
        lying(axes, shares)
        axes.set_title(f"{course.steps:,} steps, labelled rightly")
    return figure


def lying(axes: Axes, shares: dict[str, Sequence[float]]) -> None:
    most = max(max(some) for some in shares.values())
    for i, (name, some) in enumerate(shares.items()):
        tint = {"none": style.EDGE, "full recipe": style.WEIGHT}.get(name, style.mix(style.WEIGHT, 0.6))
        axes.barh(i, fmean(some), 0.66, color=tint)
        axes.text(0.01, i, style.percent(fmean(some), 1), va="center", color="white", weight="bold", size=11)
        axes.plot(some, [i] * len(some), "o", color=style.INK, ms=4)
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set(xlim=(0, 1.05 * most), ylim=(len(shares) - 0.5, -0.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11, color=style.INK)


def checks(numbers: Numbers) -> list[Check]:
    none, full = (numbers["long"][name] for name in ("none", "full recipe"))
    short = numbers["short"]
    return [
        starts_above("full recipe over none, long training: points", leads(full, none), 0),
        aside(starts_above("full recipe: points won by learning longer", leads(full, short["full recipe"]), 0)),
        above("without recipe: share of its own images that the net knows", numbers["known"]["none"], 0.97),
        aside(above("every part alone: labelled rightly, share", min(map(fmean, short.values())), 0.2)),
    ]
