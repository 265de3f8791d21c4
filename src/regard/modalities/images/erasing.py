"""Parts of an image taken out, so that no single part is relied on.

Random Erasing (Zhong et al., 2020), https://arxiv.org/abs/1708.04896: with some chance a rectangle of random size and
shape becomes noise. Cutout (DeVries and Taylor, 2017), https://arxiv.org/abs/1708.04552: a square of one size becomes
zero, anywhere, also over the edge. Both come after normalisation, where noise of deviation 1 is like an image, and zero
is the mean.

Differs from the paper: the logarithm of the shape is drawn evenly, as DeiT's code does: high and wide are alike.

Shapes: c channels, h rows, w columns. ``numbers`` are those of a row and a step: ``chance(AUGMENT, seed, step, row)``.
"""

import math

import numpy as np
import torch
from torch import Tensor

from regard.data.counter_rng import normal_samples, uniform_samples

TRIES = 10  # until a rectangle fits into the image


def random_erase(
    image: Tensor,
    numbers: np.random.Philox,
    *,
    chance: float = 0.25,
    area: tuple[float, float] = (0.02, 1 / 3),
    shape: tuple[float, float] = (0.3, 1 / 0.3),
) -> Tensor:
    """(c, h, w) -> (c, h, w), with noise in a rectangle of this area, of the image's, and this height over width"""
    channels, height, width = image.shape
    if uniform_samples(numbers, 1)[0] >= chance:
        return image
    for _ in range(TRIES):
        share, form, down, along = uniform_samples(numbers, 4).tolist()
        size = (area[0] + share * (area[1] - area[0])) * height * width
        ratio = math.exp(math.log(shape[0]) + form * (math.log(shape[1]) - math.log(shape[0])))
        high, wide = round(math.sqrt(size * ratio)), round(math.sqrt(size / ratio))
        if 0 < high < height and 0 < wide < width:
            top, left = int(down * (height - high + 1)), int(along * (width - wide + 1))
            noise = torch.from_numpy(normal_samples(numbers, channels * high * wide)).view(channels, high, wide)
            found = image.clone()
            found[:, top : top + high, left : left + wide] = noise.to(image)
            return found
    return image


def cutout(image: Tensor, numbers: np.random.Philox, side: int) -> Tensor:
    """(c, h, w) -> (c, h, w), with zeros in a square around any place of the image"""
    height, width = image.shape[-2:]
    down, along = (uniform_samples(numbers, 2) * (height, width)).astype(int).tolist()
    top, left = down - side // 2, along - side // 2
    found = image.clone()
    found[:, max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = 0
    return found
