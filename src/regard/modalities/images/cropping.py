"""A random part of an image, at one size, and perhaps its mirror image.

Going Deeper with Convolutions (Szegedy et al., 2015), https://arxiv.org/abs/1409.4842, section 6: a part of 8 to 100 %
of the area whose width is 3/4 to 4/3 of its height, the logarithm of that drawn evenly.

Shapes: c channels, h rows, w columns, of whole numbers from 0 to 255. ``numbers`` are those of a row and a step:
``chance(AUGMENT, seed, step, row)``.
"""

import math

import numpy as np
from PIL import Image
from torch import Tensor

from regard.data.counter_rng import uniform_samples

from .randaugment import to_image, to_pixels

TRIES = 10  # until a part fits into the image; then it is a square from the middle


def random_crop(
    pixels: Tensor,
    numbers: np.random.Philox,
    size: int,
    *,
    area: tuple[float, float] = (0.08, 1.0),
    shape: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """(c, h, w) -> (c, size, size), uint8"""
    image = to_image(pixels)
    return to_pixels(image.resize((size, size), Image.Resampling.BICUBIC, part(image.size, numbers, area, shape)))


def part(
    size: tuple[int, int], numbers: np.random.Philox, area: tuple[float, float], shape: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Of an image of this width and height  -> left, top, right, bottom"""
    width, height = size
    for _ in range(TRIES):
        share, form, along, down = uniform_samples(numbers, 4).tolist()
        whole = (area[0] + share * (area[1] - area[0])) * width * height
        ratio = math.exp(math.log(shape[0]) + form * (math.log(shape[1]) - math.log(shape[0])))
        wide, high = round(math.sqrt(whole * ratio)), round(math.sqrt(whole / ratio))
        if 0 < wide <= width and 0 < high <= height:
            left, top = int(along * (width - wide + 1)), int(down * (height - high + 1))
            return left, top, left + wide, top + high
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def random_mirror(pixels: Tensor, numbers: np.random.Philox, chance: float = 0.5) -> Tensor:
    """Left and right exchanged, or not.  (c, h, w) -> (c, h, w)"""
    return pixels.flip(-1) if uniform_samples(numbers, 1)[0] < chance else pixels
