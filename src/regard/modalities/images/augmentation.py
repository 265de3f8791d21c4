"""Images that change at random while they are learned: the table [data.augment] and the batches that it makes.

An image is cut, mirrored and changed by numbers of its own row and step, then normalised, a part of it erased, and the
whole mixed with its partner, the row that stands where it does from the other end of the step's whole batch. So any
split of a batch, and any resume, gives the same bits: a piece brings the partners of its rows along.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import Batches
from regard.data.counter_rng import AUGMENT, MIX, philox
from regard.data.order import Order
from regard.data.repeated import RepeatedOrder, RepeatedRows
from regard.data.rows import Rows
from regard.nn.config import not_above_zero, not_at_least, not_positive, refuse
from regard.tasks.classify import ClassifyBatch
from regard.train.runfile import setting

from .cropping import random_crop, random_mirror
from .erasing import random_erase
from .mixing import draw_mix, mix_images, mix_labels, partners
from .processor import Images
from .randaugment import STRONGEST, RandAugment

AREA = "random crop: minimum fraction of the image's area; 1: no cropping"
MIRROR = "probability of a horizontal flip"
WAYS = "RandAugment: number of operations on shape and colour, applied in sequence"
STRENGTH = "RandAugment: magnitude of each operation, from 0 to 10"
ERASING = "random erasing: probability that a rectangle is replaced by noise"


@dataclass(frozen=True)
class Augment:
    """Random augmentation of training images; off by default."""

    area: float = setting(1.0, AREA)
    mirror: float = setting(0.0, MIRROR)
    ways: int = setting(0, WAYS)
    strength: float = setting(9.0, STRENGTH)
    erasing: float = setting(0.0, ERASING)
    mixup: float = setting(0.0, "mixup: a of Beta(a, a), for mixing two images and their labels; 0: off")
    cutmix: float = setting(0.0, "CutMix: a of Beta(a, a), for pasting a box of one image into another; 0: off")
    switch: float = setting(0.5, "probability of CutMix instead of mixup, if both are on")
    copies: int = setting(1, "number of copies of each image in a batch, each augmented differently")

    def __post_init__(self) -> None:
        wrong = not_at_least(0, self, "mixup", "cutmix") + not_positive(self, "copies")
        refuse(not_changes(self), wrong, not_chances(self, "switch"))

    @property
    def mixes(self) -> bool:
        return self.mixup > 0 or self.cutmix > 0


@dataclass(frozen=True)
class CaptionedAugmentation:
    """The same for images with captions, which cannot be mixed."""

    area: float = setting(1.0, f"{AREA}; captions may mention what is cropped away")
    mirror: float = setting(0.0, f"{MIRROR}; captions may mention left and right")
    ways: int = setting(0, f"{WAYS}; captions may mention these")
    strength: float = setting(9.0, STRENGTH)
    erasing: float = setting(0.0, ERASING)

    def __post_init__(self) -> None:
        refuse(not_changes(self))


def not_changes(given: Augment | CaptionedAugmentation) -> list[str]:
    """What is wrong with how single images change."""
    wrong = not_at_least(0, given, "ways", "strength") + not_chances(given, "area", "mirror", "erasing")
    if (given.strength or 0) > STRONGEST:
        wrong += [f"strength = {given.strength} is above {STRONGEST:g}"]
    return wrong + not_above_zero(given, "area")


def not_chances(given: Augment | CaptionedAugmentation, *names: str) -> list[str]:
    found = {name: getattr(given, name) for name in names}
    return [f"{name} = {x} is not between 0 and 1" for name, x in found.items() if x is not None and not 0 <= x <= 1]


NONE = Augment()


class BatchAugmentation:
    """Images as they are learned: each cut, mirrored and changed by numbers of its own, normalised, a part erased."""

    def __init__(self, images: Images, augment: Augment | CaptionedAugmentation) -> None:
        self.images, self.augment = images, augment
        self.way = RandAugment(count=augment.ways, strength=augment.strength) if augment.ways else None

    def __call__(self, pixels: Iterable[Tensor], numbers: Sequence[np.random.Philox]) -> Tensor:
        """(c, h, w) of each, uint8 -> (b, c, size, size). Numbers are drawn for one change after the other. What is
        read whole may be large, so each image is made small before the next one is asked for."""
        changed = [self.changed(one, own) for one, own in zip(pixels, numbers, strict=True)]
        images = self.images.normalise(torch.stack(changed))
        if part := self.augment.erasing:
            images = torch.stack([random_erase(x, own, chance=part) for x, own in zip(images, numbers, strict=True)])
        return images

    def changed(self, pixels: Tensor, numbers: np.random.Philox) -> Tensor:
        """(c, h, w) -> (c, size, size), uint8"""
        if self.augment.area < 1:
            assert self.images.size is not None
            pixels = random_crop(pixels, numbers, self.images.size, area=(self.augment.area, 1.0))
        pixels = random_mirror(pixels, numbers, self.augment.mirror)
        return pixels if self.way is None else self.way(pixels, numbers)


def augmented(rows: Rows, images: Images, augment: Augment, *, batch: int, classes: int, seed: int) -> "Augmented":
    """Shuffled batches; with copies, all of an image's stand in one of them."""
    order: Order | RepeatedOrder = Order(len(rows), rows=batch, seed=seed)
    if augment.copies > 1:
        order = RepeatedOrder(len(rows), rows=batch, copies=augment.copies, seed=seed)
        rows = RepeatedRows(rows, augment.copies)
    return Augmented(rows, order, images, augment, classes, seed)


class Augmented(Batches):
    """Labels are numbers, (b,), or where images are mixed, shares of the classes, (b, classes)."""

    def __init__(
        self, rows: Rows, order: Order | RepeatedOrder, images: Images, augment: Augment, classes: int, seed: int
    ) -> None:
        self.source, self.order, self.augment = rows, order, augment
        self.classes, self.seed = classes, seed
        self.change = BatchAugmentation(images, augment)

    def collate(self, rows: Sequence[int], step: int) -> ClassifyBatch:
        if not self.augment.mixes:
            return self.together(rows, step)
        others = partners(rows, self.rows(step).tolist())
        needed = list(dict.fromkeys([*rows, *others]))  # a whole batch holds its partners: nothing is made twice
        made, place = self.together(needed, step), {row: i for i, row in enumerate(needed)}
        own, theirs = (torch.tensor([place[row] for row in some]) for some in (rows, others))
        size = (made.inputs.shape[-2], made.inputs.shape[-1])
        mix = draw_mix(
            philox(MIX, self.seed, step),
            size,
            mixup=self.augment.mixup,
            cutmix=self.augment.cutmix,
            switch=self.augment.switch,
        )
        return ClassifyBatch(
            mix_images(made.inputs[own], made.inputs[theirs], mix),
            mix_labels(made.labels[own], made.labels[theirs], mix, self.classes),
        )

    def together(self, rows: Sequence[int], step: int) -> ClassifyBatch:
        """All that is done with a single row."""
        numbers = [philox(AUGMENT, self.seed, step, int(row)) for row in rows]
        labels: list[int] = []

        def read() -> Iterator[Tensor]:
            for row in rows:
                one = self.source[int(row)]
                labels.append(one.label)
                yield one.image

        images = self.change(read(), numbers)
        return ClassifyBatch(images, torch.tensor(labels))
