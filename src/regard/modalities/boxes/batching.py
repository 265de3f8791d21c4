"""Images with boxes put into batches."""

from collections.abc import Sequence

import numpy as np

from regard.data.batches import Batches, RandomBatches
from regard.data.order import Order
from regard.modalities.images.processor import Images
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches

from .annotations import Boxed
from .detection import BoxedBatch, collate_boxes
from .reframing import Reframing


def box_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Train shuffled and changed by chance; the others in order and as they are."""
    data = plan.data
    change = ReframedMaker(reading.processor, Reframing(data.mirror, data.cut, data.part, data.scale))
    made: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows.lengths, rows=data.batch, seed=plan.seed, shuffle=split == "train")
        still = BoxMaker(reading.processor)
        made[split] = RandomBatches(rows, order, change, plan.seed) if order.shuffle else Batches(rows, order, still)
    return SplitBatches(made, opened.names)


def shape_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Of what code draws: there is always another image, so none is changed."""
    made: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows.lengths, rows=plan.data.batch, seed=plan.seed, shuffle=split == "train")
        made[split] = Batches(rows, order, BoxMaker(reading.processor))
    return SplitBatches(made, opened.names)


class BoxMaker:
    """Images of any sizes, normalised, and their boxes."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __call__(self, rows: Sequence[Boxed]) -> BoxedBatch:
        pixels = [self.images.normalise(row.image) for row in rows]
        return collate_boxes(pixels, [row.boxes for row in rows], [row.classes for row in rows])


class ReframedMaker:
    """The same of images that are mirrored, cut and scaled by chance."""

    def __init__(self, images: Images, way: Reframing) -> None:
        self.make, self.way = BoxMaker(images), way

    def __call__(self, rows: Sequence[Boxed], numbers: Sequence[np.random.Philox]) -> BoxedBatch:
        return self.make([self.way(row, own) for row, own in zip(rows, numbers, strict=True)])
