"""An image and its boxes, mirrored, cut and scaled at random.

End-to-End Object Detection with Transformers (Carion et al., 2020), https://arxiv.org/abs/2005.12872, section 4: left
and right are exchanged or not; with a chance of one half a random part is cut out first; then the image is scaled.
A box is cut along with its image. The paper's code keeps whatever is left of it; here a box of which less than a
quarter is left goes, for nobody could tell what it was.

Shapes: m boxes by centre, as shares of the image; c channels, h rows, w columns, of whole numbers from 0 to 255.
``numbers`` are those of a row and a step: ``chance(AUGMENT, seed, step, row)``.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.data.counter_rng import uniform_samples
from regard.modalities.images.randaugment import to_image, to_pixels
from regard.nn.boxes import corners

from .annotations import Boxed

LEFT_OVER = 0.25  # of a box, or it goes
WHOLE = 0.0, 0.0, 1.0, 1.0


@dataclass(frozen=True)
class Reframing:
    mirror: float = 0.5  # the chance that left and right are exchanged
    cut: float = 0.5  # the chance that a part is cut out
    part: float = 0.6  # the smallest such part, as a share of each side
    scale: float = 0.8  # the smallest scale; the largest is 1

    def __call__(self, row: Boxed, numbers: np.random.Philox) -> Boxed:
        turned, cut, wide, high, across, down, scale = uniform_samples(numbers, 7).tolist()
        box = WHOLE
        if cut < self.cut:
            wide, high = (self.part + (1 - self.part) * x for x in (wide, high))
            box = (1 - wide) * across, (1 - high) * down, (1 - wide) * across + wide, (1 - high) * down + high
        image = reframed(row.image, box, self.scale + (1 - self.scale) * scale)
        boxes, kept = cut_along(row.boxes, box)
        boxes, classes = boxes[kept], row.classes[kept]
        return mirrored(Boxed(image, boxes, classes)) if turned < self.mirror else Boxed(image, boxes, classes)


def reframed(pixels: Tensor, box: tuple[float, float, float, float], scale: float) -> Tensor:
    """A part of the image, as large as the whole was on its longer side, times the scale.  (c, h, w) -> (c, h', w')"""
    image = to_image(pixels)
    width, height = image.size
    part = box[0] * width, box[1] * height, box[2] * width, box[3] * height
    wide, high = part[2] - part[0], part[3] - part[1]
    zoom = scale * max(width, height) / max(wide, high)
    size = max(round(wide * zoom), 1), max(round(high * zoom), 1)
    if size == image.size and box == WHOLE:
        return pixels
    return to_pixels(image.resize(size, Image.Resampling.BILINEAR, part))


def cut_along(boxes: Tensor, box: tuple[float, float, float, float]) -> tuple[Tensor, Tensor]:
    """Boxes of the image as boxes of its part, and which of them stay.  (m, 4) -> (m, 4), (m,)"""
    low, high = torch.tensor(box[:2]), torch.tensor(box[2:])
    if box == WHOLE:
        return boxes, torch.ones(len(boxes), dtype=torch.bool)
    found = corners(boxes)
    inner = torch.cat((found[:, :2].clamp(min=low, max=high), found[:, 2:].clamp(min=low, max=high)), 1)
    size = inner[:, 2:] - inner[:, :2]
    kept = size.prod(1) > LEFT_OVER * boxes[:, 2:].prod(1)
    centre = (inner[:, :2] + inner[:, 2:]) / 2
    return torch.cat(((centre - low) / (high - low), size / (high - low)), 1), kept


def mirrored(row: Boxed) -> Boxed:
    """Left and right exchanged."""
    boxes = row.boxes.clone()
    boxes[:, 0] = 1 - boxes[:, 0]
    return Boxed(row.image.flip(-1), boxes, row.classes)
