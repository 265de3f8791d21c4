"""What the figures of detection share: the recipe's model of generated shapes, scenes that it has not seen, and how an
image with its boxes is kept in a record and drawn.

The model is that of `regard train shapes`, in the folder of its run: the first figure that asks for it trains it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from regard import style
from regard.modalities.boxes.annotations import Boxed
from regard.modalities.boxes.detection import BoxedBatch, collate_boxes, decode_boxes, image_sizes
from regard.modalities.boxes.drawing import class_colour
from regard.modalities.boxes.precision import Precision, ScoredBoxes, average_precision, judge_image
from regard.modalities.boxes.shapes import SHAPE_NAMES, Shapes
from regard.modalities.images.processor import Images
from regard.model import Model
from regard.models.detr import DETROutput
from regard.nn.boxes import corners
from regard_lectures.runs import by_recipe

SEED = 2  # of the scenes: those of the recipe's test split


def finder() -> Model:
    return by_recipe("shapes")


def unseen(count: int) -> list[Boxed]:
    rows = Shapes(count, SEED)
    return [rows[i] for i in range(count)]


def batch_of(rows: Sequence[Boxed], images: Images) -> BoxedBatch:
    pixels = [images.normalise(row.image) for row in rows]
    return collate_boxes(pixels, [row.boxes for row in rows], [row.classes for row in rows])


def prepared(model: Model, rows: Sequence[Boxed]) -> BoxedBatch:
    assert isinstance(model.processor, Images)
    return batch_of(rows, model.processor)


@torch.no_grad()
def said(model: Model, batch: BoxedBatch) -> DETROutput:
    found: DETROutput = model.net(batch.images, batch.sizes)
    return found


def judged(found: Sequence[ScoredBoxes], batch: BoxedBatch, classes: int) -> list[Any]:
    """Each image's detections against its boxes, in its pixels."""
    sizes = image_sizes(batch).flip(1).repeat(1, 2)
    every = []
    for i, one in enumerate(found):
        there = batch.classes[i] >= 0
        every.append(judge_image(one, corners(batch.boxes[i][there]) * sizes[i], batch.classes[i][there], classes))
    return every


def precision(model: Model, rows: Sequence[Boxed]) -> Precision:
    batch = prepared(model, rows)
    return average_precision(judged(decode_boxes(said(model, batch), image_sizes(batch)), batch, len(SHAPE_NAMES)))


# kept and drawn ----------------------------------------------------------------------------------


def scene(number: int) -> NDArray[np.uint8]:
    """One that is drawn again by its address, so that no record holds it.  -> (h, w, 3)"""
    return np.asarray(Shapes(number + 1, SEED)[number].image.permute(1, 2, 0))


def kept(image: Tensor, wide: int) -> dict[str, Any]:
    """A photograph in a record: sixteen colours, a letter for each pixel.  (3, h, w), uint8"""
    whole = Image.fromarray(np.asarray(image.permute(1, 2, 0)))
    small = whole.resize((wide, round(wide * whole.height / whole.width)), Image.Resampling.LANCZOS)
    few = small.quantize(16, dither=Image.Dither.NONE)
    palette = (few.getpalette() or [])[:48]
    return {
        "palette": palette + [0] * (48 - len(palette)),
        "rows": ["".join(format(int(x), "x") for x in row) for row in np.asarray(few)],
    }


def photograph(one: dict[str, Any]) -> NDArray[np.uint8]:
    """The way back.  -> (h, w, 3)"""
    numbers = np.array([[int(x, 16) for x in row] for row in one["rows"]])
    return np.array(one["palette"], np.uint8).reshape(16, 3)[numbers]


def show(axes: Axes, pixels: NDArray[np.uint8]) -> None:
    """An image whose coordinates are shares of its sides, so that boxes are drawn as they stand.  (h, w, 3)"""
    axes.imshow(pixels, extent=(0, 1, 1, 0), aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(1, 0))
    axes.set_box_aspect(pixels.shape[0] / pixels.shape[1])
    for spine in axes.spines.values():
        spine.set_visible(False)


def frame(axes: Axes, box: Sequence[float], kind: int, *, line: float = 2.0, dashed: bool = False) -> None:
    """A box by centre, in the colour of its class, with a pale edge so that it is seen on anything."""
    x, y, width, height = box
    for shade, thick in (("white", line + 1.8), (class_colour(kind), line)):
        axes.add_patch(
            Rectangle(
                (x - width / 2, y - height / 2), width, height, fill=False, ec=shade, lw=thick,
                ls=(0, (3, 2)) if dashed and shade != "white" else "-",
            )
        )  # fmt: skip


def tag(axes: Axes, box: Sequence[float], kind: int, words: str, size: float = 8.5) -> None:
    """A label at the upper left corner of a box, or below it where that is too high."""
    x, y = box[0] - box[2] / 2, box[1] - box[3] / 2
    low = y < 0.09
    axes.text(
        min(max(x, 0.0), 0.66), box[1] + box[3] / 2 if low else y, words,
        size=size, color="white", weight="bold", va="top" if low else "bottom", ha="left",
        bbox={"boxstyle": "square,pad=0.18", "fc": class_colour(kind), "ec": "white", "lw": 0.6}, family=style.SANS,
    )  # fmt: skip
