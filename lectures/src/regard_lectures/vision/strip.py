"""5.5b: what DeiT's recipe does to its pictures and their labels, after the strip of Yun et al. (2019, figure 1).

mixup blends two pictures and CutMix pastes a box of one into the other, and labels are mixed in the same shares; Cutout
and Random Erasing take a part away and leave the label; RandAugment moves, turns and recolours. A share is measured on
the pixels of many draws, and compared with the label's. Pictures are of Fashion-MNIST, whose licence allows it.
Needs fashion_mnist_30k below REGARD_DATA.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.counter_rng import AUGMENT, MIX, philox
from regard.modalities.images.erasing import cutout, random_erase
from regard.modalities.images.mixing import Mix, draw_mix, mix_images, mix_labels
from regard.modalities.images.randaugment import RandAugment
from regard_lectures.figure import Check, Numbers, below, equal, plain, within
from regard_lectures.labelled_images import pixels_of, read, shades

TITLE = "One pair of pictures, augmented"
DECKS = ("004",)
CLAIM = "A CutMix label weighs its share of pixels, also of a clipped box; a mixup label weighs its share of the blend."
EXPECTED = (
    "A CutMix label weighs its share of pixels, also of a clipped box, a mixup label its share of the blend; erased "
    "areas are 2 to 33 % of the image."
)
FOUND = (
    "Labels are off by at most 3e-8 of the pixels' share and of the blend's; erased are 1.8 to 33.9 % of the pixels, a "
    "little beyond 2 to 33 %, as sides are whole numbers of pixels."
)
COST = 4.0
SEED = 0

NAMES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
PAIR = (9, 2)  # kinds of the two
MEAN, SPREAD, SIDE = 0.286, 0.353, 12  # of all pixels; pixels of a cutout
DRAWS = 400
SHOWN = {"mixup": 6, "cutmix": 24, "cutout": 7, "erasing": 2, "randaugment": 3}  # which draw of each


def pair() -> tuple[Tensor, Tensor]:
    """-> (2, 1, 28, 28) from 0 to 1; (2,)"""
    pixels, labels = read("fashion_mnist_30k", "test")
    places = torch.stack([(labels == kind).nonzero()[0, 0] for kind in PAIR])
    return pixels[places], labels[places]


def compute() -> Numbers:
    images, labels = pair()
    normal = (images - MEAN) / SPREAD  # cutout and erasing come after that
    ink = {
        "mixup": mix_images(images[:1], images[1:], mix_of("mixup", SHOWN["mixup"])),
        "cutmix": mix_images(images[:1], images[1:], mix_of("cutmix", SHOWN["cutmix"])),
        "cutout": SPREAD * cutout(normal[0], philox(AUGMENT, SEED, SHOWN["cutout"]), SIDE) + MEAN,
        "erasing": SPREAD * random_erase(normal[0], philox(AUGMENT, SEED, SHOWN["erasing"]), chance=1.0) + MEAN,
        "randaugment": augmented(images[0], SHOWN["randaugment"]),
    }
    numbers: Numbers = {
        "pictures": [shades(found.clamp(0, 1).view(28, 28)) for found in (*images, *ink.values())],
        "labels": {
            name: plain(mix_labels(labels[:1], labels[1:], mix_of(name, SHOWN[name]), 10)[0])
            for name in ("mixup", "cutmix")
        },
    }
    return numbers | measured(normal, labels)


def mix_of(kind: str, step: int) -> Mix:
    """One of a kind alone."""
    numbers = philox(MIX, SEED, step)
    return draw_mix(numbers, (28, 28), mixup=0.8 * (kind == "mixup"), cutmix=float(kind == "cutmix"))


def augmented(image: Tensor, step: int) -> Tensor:
    """(1, h, w) from 0 to 1 -> the same, every drawn way taken"""
    strong = RandAugment(chance=1.0)
    return strong((255 * image).byte(), philox(AUGMENT, SEED, step)) / 255


def measured(images: Tensor, labels: Tensor) -> Numbers:
    """Over many draws: the share of own pixels, or of the blend, less the label's weight; areas that were taken."""
    own, theirs = torch.zeros(1, 1, 28, 28), torch.ones(1, 1, 28, 28)  # so that a pixel tells whose it is
    off: dict[str, float] = {}
    sums, areas, squares = 0.0, [], []
    for kind in ("mixup", "cutmix"):
        off[kind] = 0.0
        for step in range(DRAWS):
            mix = mix_of(kind, step)
            share = 1 - float(mix_images(own, theirs, mix).double().mean())
            soft = mix_labels(labels[:1], labels[1:], mix, 10).double()[0]
            off[kind] = max(off[kind], abs(share - float(soft[labels[0]])))
            sums = max(sums, abs(float(soft.sum()) - 1))
    for step in range(DRAWS):
        numbers = philox(AUGMENT, SEED, step)
        areas.append(float((random_erase(images[0], numbers, chance=1.0) != images[0]).double().mean()))
        squares.append(float((cutout(theirs[0], philox(AUGMENT, SEED, step), SIDE) == 0).sum()))
    return {
        "off": off,
        "sums": sums,
        "areas": [min(areas), max(areas)],
        "squares": [min(squares), max(squares)],
    }


TITLES = ("picture", "its partner", "mixup", "CutMix", "Cutout", "Random Erasing", "RandAugment")


def draw(numbers: Numbers) -> Figure:
    note = (
        "Garments of 28 x 28 pixels. Below each, what the net is told it is. With mixup the share of a label is that "
        "of the blend,\nwith CutMix that of the pixels, also where the box was cut off at the edge."
    )
    figure = style.page(TITLE, note, height=3.45)
    own, other = (NAMES[kind] for kind in PAIR)
    told = [own, other, *(mixture(numbers["labels"][name]) for name in ("mixup", "cutmix")), own, own, own]
    for axes, picture, title, text in zip(
        figure.subplots(1, len(TITLES)), numbers["pictures"], TITLES, told, strict=True
    ):
        axes.imshow(pixels_of(picture), cmap="gray_r", vmin=0, vmax=15)
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, size=11, loc="center")
        axes.set_xlabel(text, size=11, color=style.INK, family=[style.SERIF, style.SANS], linespacing=1.4)
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(style.LINE)
    return figure


def mixture(label: list[float]) -> str:
    return "\n".join(f"{style.percent(label[kind])} {NAMES[kind]}" for kind in PAIR)


def checks(numbers: Numbers) -> list[Check]:
    low, high = numbers["areas"]
    least, most = numbers["squares"]
    return [
        below("CutMix: share of pixels less the label's weight, largest", numbers["off"]["cutmix"], 1e-6),
        below("mixup: share of the blend less the label's weight, largest", numbers["off"]["mixup"], 1e-6),
        below("labels sum to 1, to within", numbers["sums"], 1e-6),
        within("Random Erasing: smallest area, share", low, 0.02, 0.05),
        within("Random Erasing: largest area, share", high, 0.25, 0.33),
        equal("Cutout: pixels of a whole square", most, float(SIDE**2)),
        below("Cutout: fewest pixels, over the edge", least, SIDE**2),
    ]
