"""Images with labels put into batches."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.data.batches import Batches
from regard.data.faults import Fault
from regard.data.order import Order
from regard.data.rows import IntegerArray, Rows, labels_of_rows
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches
from regard.tasks.classify import ClassifyBatch

from .augmentation import NONE, Augment, augmented
from .preparation import not_deviations
from .processor import Images
from .processor import LabelledImage as Example
from .randaugment import to_image


def image_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Train shuffled, and changed at random where that is asked for; the others as they are, in their order."""
    data, images = plan.data, reading.processor
    found: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        shuffled = split == "train"
        if shuffled and data.augment != NONE:
            classes = len(opened.names)
            found[split] = augmented(rows, images, data.augment, batch=data.batch, classes=classes, seed=plan.seed)
        else:
            order = Order(len(rows), rows=data.batch, seed=plan.seed, shuffle=shuffled)
            found[split] = Batches(rows, order, ImageMaker(images))
    return SplitBatches(found, opened.names)


class ImageMaker:
    """Images, normalised, and their labels."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __call__(self, rows: Sequence[Any]) -> ClassifyBatch:
        pixels = torch.stack([self.images.normalise(row.image) for row in rows])
        return ClassifyBatch(pixels, torch.tensor([row.label for row in rows]))


class PreparedRows:
    """Rows that were read whole, prepared as they are in use: what is held out of such."""

    def __init__(self, rows: Rows, images: Images) -> None:
        self.source, self.images = rows, images
        self.row_labels = labels_of_rows(rows)
        self.faults: Sequence[Fault] = rows.faults
        self.lengths: IntegerArray | None = None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> Example:
        row = self.source[i]
        return Example(self.images.prepare(to_image(row.image)), row.label)

    def where(self, i: int) -> str:
        return self.source.where(i)


def not_batches(deviation: tuple[float, ...] | None, batch: int | None, augment: Augment | None) -> list[str]:
    """What is wrong with how images become batches."""
    wrong = not_deviations(deviation)
    if augment is not None and batch and batch > 0 and batch % (augment.copies or 1):
        wrong += [f"batch = {batch} is not a multiple of augment.copies = {augment.copies}"]
    return wrong
