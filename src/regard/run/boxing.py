"""Images with boxes, for a run: opened, and in batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.batches import Batches, Drawn
from regard.data.boxes import Boxed, BoxedImages, open_boxes
from regard.data.images import Images
from regard.data.order import Order
from regard.data.pixels import printable
from regard.data.reframing import Reframing
from regard.data.rows import Rows, Some
from regard.data.shapes import KINDS, Shapes
from regard.errors import InputError
from regard.tasks.detecting import BoxedBatch, together

from .inputs import BoxFiles, DrawnShapes
from .named import named_model
from .settings import Run

SPLITS = ("train", "held_out", "test")
MEASURED = 300  # generated images that are held out, and as many to test on
SHOWN = 5  # images or boxes that are named


def boxes_prepared(run: Run, data: BoxFiles | DrawnShapes) -> Images:
    """Each image keeps its form. Pixels become the numbers that the weights of [start] know, unless the run says
    otherwise."""
    base = None if run.start is None else named_model(run.start.model).processor
    if isinstance(data, DrawnShapes):
        images = Images(size=data.side, fit="within", mean=(0.5,), std=(0.25,))
        usual = True
    else:
        images = Images(size=data.longest, fit="within", mean=data.mean, std=data.deviation)
        usual = data.as_usual()
    if isinstance(base, Images) and usual:
        return replace(images, mean=base.mean, std=base.std, filter=base.filter)
    return images


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
            if split == "train" and not rows.things().any() and not rows.bad_boxes:
                raise InputError(
                    "no image of train has a box, so there is nothing to learn",
                    where=str(found(file, base)),
                    got=f"{len(rows)} images" + (f" of the split {part!r}" if part else ""),
                    fix="see that data.train and data.splits name what was annotated",
                )
            names, splits[split] = rows.labels, rows
    return splits, names


def unasked(rows: Rows, queries: int) -> list[str]:
    """Whether images hold more things than there are queries to find them, and which."""
    indices = rows.indices if isinstance(rows, Some) else np.arange(len(rows))
    source = rows.source if isinstance(rows, Some) else rows
    if not isinstance(source, BoxedImages):
        return []
    counts = source.things()
    over = [int(i) for i in indices if counts[i] > queries]
    if not over:
        return []
    named = [f"{source.where(i)} ({counts[i]})" for i in over[:SHOWN]]
    more = f" and {len(over) - SHOWN} more" if len(over) > SHOWN else ""
    what = f"{len(over)} images hold more things than model.queries = {queries} can find"
    return [f"{what}, up to {counts[over].max()}: {', '.join(named)}{more}"]


def clipped(splits: Iterable[Rows]) -> list[str]:
    """How many boxes reached beyond their images, and which."""
    every = [rows.source if isinstance(rows, Some) else rows for rows in splits]  # of two parts, one source twice
    sources = {id(rows): rows for rows in every if isinstance(rows, BoxedImages)}.values()
    names = [name for rows in sources for name in rows.clipped]
    if not names:
        return []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    total = sum(len(rows.boxes) for rows in sources)
    what = f"{len(names):,} of {total:,} boxes reach beyond their images, and are clipped to them"
    return [f"{what}: {'; '.join(map(printable, names[:SHOWN]))}{more}"]


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
