"""Images with boxes, for a run: opened, and in batches."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.data.batches import Batches, Drawn
from regard.data.boxes import Boxed, open_boxes
from regard.data.images import Images
from regard.data.order import Order
from regard.data.reframing import Reframing
from regard.data.rows import Rows
from regard.data.shapes import KINDS, Shapes
from regard.tasks.detecting import BoxedBatch, together

from .inputs import BoxFiles, DrawnShapes
from .settings import Run

SPLITS = ("train", "held_out", "test")
MEASURED = 300  # generated images that are held out, and as many to test on


def boxes_prepared(data: BoxFiles | DrawnShapes) -> Images:
    """Each image keeps its form."""
    if isinstance(data, DrawnShapes):
        return Images(size=data.side, fit="within", mean=(0.5,), std=(0.25,))
    return Images(size=data.longest, fit="within", mean=data.mean, std=data.deviation)


def box_rows(
    data: BoxFiles | DrawnShapes, images: Images, seed: int, base: Path, found: Callable[[str, Path], Path]
) -> tuple[dict[str, Rows], tuple[str, ...]]:
    """Every split, and the names of the classes, which are those of train."""
    splits: dict[str, Rows] = {}
    if isinstance(data, DrawnShapes):
        for i, (split, count) in enumerate(zip(SPLITS, (data.rows, MEASURED, MEASURED), strict=True)):
            splits[split] = Shapes(count, 3 * seed + i, data.side, data.most)
        return splits, KINDS
    files = (data.train,) * len(data.splits) or (data.train, data.held_out, data.test)
    names: tuple[str, ...] = ()
    for i, (split, file) in enumerate(zip(SPLITS, files, strict=False)):
        if file:
            folder = found(data.images[i % len(data.images)], base)
            part = data.splits[i] if data.splits else None
            rows = open_boxes(found(file, base), folder, images, split=part, labels=names or None)
            names, splits[split] = rows.labels, rows
    return splits, names


def boxes_in_batches(
    run: Run, data: BoxFiles | DrawnShapes, splits: Mapping[str, Rows], images: Images
) -> dict[str, Batches]:
    """Train shuffled and, where it is of files, changed by chance; the others in order and as they are."""
    made: dict[str, Batches] = {}
    for split, rows in splits.items():
        shuffled = split == "train"
        order = Order(len(rows), rows.lengths, rows=data.batch, seed=run.seed, shuffle=shuffled)
        if shuffled and isinstance(data, BoxFiles):
            way = Reframing(data.mirror, data.cut, data.part, data.scale)
            made[split] = Drawn(rows, order, ReframedMaker(images, way), run.seed)
        else:
            made[split] = Batches(rows, order, BoxMaker(images))
    return made


class BoxMaker:
    """Images of any sizes, normalised, and their boxes."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __call__(self, rows: Sequence[Boxed]) -> BoxedBatch:
        pixels = [self.images.normalise(row.image) for row in rows]
        return together(pixels, [row.boxes for row in rows], [row.classes for row in rows])


class ReframedMaker:
    """The same of images that are mirrored, cut and scaled by chance."""

    def __init__(self, images: Images, way: Reframing) -> None:
        self.make, self.way = BoxMaker(images), way

    def __call__(self, rows: Sequence[Boxed], numbers: Sequence[np.random.Philox]) -> BoxedBatch:
        return self.make([self.way(row, own) for row, own in zip(rows, numbers, strict=True)])
