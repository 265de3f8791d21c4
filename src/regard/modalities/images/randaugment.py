"""Images changed at random, all ways with one strength.

RandAugment (Cubuk et al., 2020), https://arxiv.org/abs/1909.13719: of 14 ways to change an image some are drawn, each
as likely as any other, and done one after the other; the only settings are how many, and how strongly, from 0 to 10.

Differs from the paper: every way changes more the larger the strength is, and at 0 all that have one change nothing;
the strength is drawn anew for each, around the given one; and each is done with a chance. DeiT has all three from its
authors' code (``rand-m9-mstd0.5-inc1``: 2 ways, strength 9 and 0.5 around it, each with chance 0.5).

Shapes: c channels (1 or 3), h rows, w columns, of whole numbers from 0 to 255. ``numbers`` are those of a row and a
step: ``chance(AUGMENT, seed, step, row)``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from regard.data.counter_rng import normal_samples, uniform_samples

STRONGEST = 10.0
GREY = 128  # where an image is moved away from its edge

Way = Callable[[Image.Image, float], Image.Image]  # the strength is from -1 to 1; ways that know no sides take its size


def moved(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    """By an affine map from where a pixel comes to where it was."""
    fill = GREY if image.mode == "L" else (GREY,) * 3
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def rotated(image: Image.Image, strength: float) -> Image.Image:
    fill = GREY if image.mode == "L" else (GREY,) * 3
    return image.rotate(30 * strength, Image.Resampling.BILINEAR, fillcolor=fill)


def posterized(image: Image.Image, strength: float) -> Image.Image:
    """Of 8 bits, 8 to 4 are kept."""
    return ImageOps.posterize(image, 8 - round(4 * abs(strength)))


def solarized(image: Image.Image, strength: float) -> Image.Image:
    """What is brighter than a threshold is turned around; at 0 nothing is."""
    return ImageOps.solarize(image, 256 - int(256 * abs(strength)))


WAYS: dict[str, Way] = {
    "identity": lambda image, s: image,
    "autocontrast": lambda image, s: ImageOps.autocontrast(image),
    "equalize": lambda image, s: ImageOps.equalize(image),
    "rotate": rotated,
    "solarize": solarized,
    "posterize": posterized,
    "color": lambda image, s: ImageEnhance.Color(image).enhance(1 + 0.9 * s),
    "contrast": lambda image, s: ImageEnhance.Contrast(image).enhance(1 + 0.9 * s),
    "brightness": lambda image, s: ImageEnhance.Brightness(image).enhance(1 + 0.9 * s),
    "sharpness": lambda image, s: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * s),
    "shear-x": lambda image, s: moved(image, (1, 0.3 * s, 0, 0, 1, 0)),
    "shear-y": lambda image, s: moved(image, (1, 0, 0, 0.3 * s, 1, 0)),
    "translate-x": lambda image, s: moved(image, (1, 0, 0.45 * s * image.width, 0, 1, 0)),
    "translate-y": lambda image, s: moved(image, (1, 0, 0, 0, 1, 0.45 * s * image.height)),
}


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """RandAugment; the defaults are DeiT's."""

    count: int = 2
    strength: float = 9.0  # 0 to 10
    spread: float = 0.5  # the deviation of each strength
    chance: float = 0.5  # that a way, once drawn, is taken

    def __post_init__(self) -> None:
        if self.count < 0 or not 0 <= self.strength <= STRONGEST or self.spread < 0 or not 0 <= self.chance <= 1:
            raise ValueError(f"{self}: count and spread must be at least 0, strength from 0 to 10, chance from 0 to 1")

    def __call__(self, pixels: Tensor, numbers: np.random.Philox) -> Tensor:
        """(c, h, w) -> (c, h, w), uint8"""
        image, names = to_image(pixels), list(WAYS)
        for _ in range(self.count):
            which, taken, side = uniform_samples(numbers, 3).tolist()
            strength = self.strength + self.spread * float(normal_samples(numbers, 1)[0])
            strength = min(max(strength, 0.0), STRONGEST) / STRONGEST
            if taken < self.chance:
                image = WAYS[names[int(which * len(names))]](image, strength if side < 0.5 else -strength)
        return to_pixels(image)


def to_image(pixels: Tensor) -> Image.Image:
    if pixels.dtype != torch.uint8 or pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
        raise ValueError(f"expected a uint8 image of shape (1 or 3, h, w), got {tuple(pixels.shape)}, {pixels.dtype}")
    return Image.fromarray(pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous().numpy())


def to_pixels(image: Image.Image) -> Tensor:
    found = torch.from_numpy(np.array(image))
    return found[None] if found.ndim == 2 else found.permute(2, 0, 1).contiguous()
