"""Changes at random that a discriminator sees of all images, drawn and real: with few images it cannot learn them by
heart, and what it tells of a drawn image still has a gradient.

Differentiable Augmentation for Data-Efficient GAN Training (Zhao et al., 2020), https://arxiv.org/abs/2006.10738
Colour, translation and cutout, each by numbers of its own for each image and call. Images are moved by indexing, which
can be differentiated twice, as a gradient penalty needs it.

Shapes: b batch, c channels, h height, w width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.config import refuse
from regard.train.runfile import setting


@dataclass(frozen=True)
class DiffAugment:
    """Random changes of all images that the discriminator sees, real and generated (DiffAugment); off by default."""

    colour: float = setting(0.0, "strength of changes of brightness, saturation and contrast; 1: as in the paper")
    translation: float = setting(0.0, "largest shift, as a fraction of the image's side; 0.125 in the paper")
    cutout: float = setting(
        0.0, "side of the square that is cut out, as a fraction of the image's side; 0.5 in the paper"
    )

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("colour", "translation", "cutout")}
        refuse(
            [f"{name} = {x} is not between 0 and 1" for name, x in given.items() if x is not None and not 0 <= x <= 1]
        )

    def __call__(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> the same shape; what has no strength leaves the images as they are"""
        changes: tuple[tuple[float, Callable[[Tensor, float], Tensor]], ...] = (
            (self.colour, brightness),
            (self.colour, saturation),
            (self.colour, contrast),
            (self.translation, translated),
            (self.cutout, cut_out),
        )
        for strength, change in changes:
            images = change(images, strength) if strength else images
        return images


def chances(images: Tensor) -> Tensor:
    """A number from -1 to 1 for each image.  -> (b, 1, 1, 1)"""
    return 2 * torch.rand(len(images), 1, 1, 1, dtype=images.dtype, device=images.device) - 1


def brightness(images: Tensor, strength: float) -> Tensor:
    return images + 0.5 * strength * chances(images)


def saturation(images: Tensor, strength: float) -> Tensor:
    """The distance of each pixel's channels from their mean."""
    mean = images.mean(1, keepdim=True)
    return mean + (images - mean) * (1 + strength * chances(images))


def contrast(images: Tensor, strength: float) -> Tensor:
    """The distance of all pixels from the mean of the image."""
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (images - mean) * (1 + 0.5 * strength * chances(images))


def translated(images: Tensor, share: float) -> Tensor:
    """Down and to the right by whole pixels; what comes in is zero."""
    found = images
    for axis in (-2, -1):
        found = shifted(found, axis, round(images.shape[axis] * share))
    return found


def shifted(images: Tensor, axis: int, most: int) -> Tensor:
    """Along one axis by up to ``most`` either way."""
    side = images.shape[axis]
    steps = torch.randint(-most, most + 1, (len(images), 1), device=images.device)
    source = torch.arange(side, device=images.device) - steps  # (b, side)
    inside = (source >= 0) & (source < side)
    source = source.clamp(0, side - 1)
    shape = [len(images), 1, 1, 1]
    shape[axis] = side
    moved = images.gather(axis, source.view(shape).expand_as(images))
    return moved * inside.view(shape)


def cut_out(images: Tensor, share: float) -> Tensor:
    """A square becomes zero, of which a part may lie outside."""
    keep = torch.ones_like(images[:, :1])
    within = []
    for axis in (-2, -1):
        side = images.shape[axis]
        size = round(side * share)
        first = torch.randint(0, side + 1 - size % 2, (len(images), 1), device=images.device) - size // 2
        places = torch.arange(side, device=images.device)
        within.append((places >= first) & (places < first + size))
    hidden = within[0][:, None, :, None] & within[1][:, None, None, :]
    return images * keep.masked_fill(hidden, 0.0)
