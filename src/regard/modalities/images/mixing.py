"""Two images in one, and their labels in the same shares; and labels that are less than sure.

mixup (Zhang et al., 2018), https://arxiv.org/abs/1710.09412:   x = l x_i + (1 - l) x_j,  l ~ Beta(a, a)
CutMix (Yun et al., 2019), https://arxiv.org/abs/1905.04899:   a box of x_j in x_i, its sides sqrt(1 - l) of the image's
Label smoothing (Szegedy et al., 2016), https://arxiv.org/abs/1512.00567:   (1 - e) y + e / c

There is one l for a batch, and its rows are paired with the batch turned around. Which mix a step has follows from seed
and step alone (``chance(MIX, seed, step)``), and who is paired with whom from the whole batch: so a batch that is split
over processes or pieces is mixed as the whole one is, if each piece brings the partners of its rows (``partners``).

Shapes: b batch, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.counter_rng import beta_samples, uniform_samples


@dataclass(frozen=True)
class PixelBox:
    """Rows from top to below bottom, columns from left to before right."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)


@dataclass(frozen=True)
class Mix:
    """What a step does with its pairs: the share of each row's own image, and for CutMix where its partner's is."""

    share: float
    box: PixelBox | None = None


def draw_mix(
    numbers: np.random.Philox, size: tuple[int, int], *, mixup: float = 0.8, cutmix: float = 1.0, switch: float = 0.5
) -> Mix:
    """For images of ``size``: with the chance ``switch`` a CutMix, else a mixup; each by its a, and 0 is never.

    The defaults are DeiT's.
    """
    which = uniform_samples(numbers, 1)[0]
    if not mixup and not cutmix:
        return Mix(1.0)
    if cutmix and (not mixup or which < switch):
        return cut_mix(numbers, size, beta_samples(numbers, cutmix))
    return Mix(beta_samples(numbers, mixup))


def cut_mix(numbers: np.random.Philox, size: tuple[int, int], share: float) -> Mix:
    """A box around a random place. What falls outside of the image is cut off, and the share is what is left of it."""
    height, width = size
    high, wide = int(height * (1 - share) ** 0.5), int(width * (1 - share) ** 0.5)
    down, along = (uniform_samples(numbers, 2) * (height, width)).astype(int).tolist()
    box = PixelBox(
        max(down - high // 2, 0),
        max(along - wide // 2, 0),
        min(down - high // 2 + high, height),
        min(along - wide // 2 + wide, width),
    )
    return Mix(1 - box.area / (height * width), box)


def partners(rows: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Who each of these rows is mixed with: the batch, ``whole``, turned around. A row stands in it once."""
    places = {int(row): i for i, row in enumerate(whole)}
    return [int(whole[len(whole) - 1 - places[int(row)]]) for row in rows]


def mix_images(images: Tensor, others: Tensor, mix: Mix) -> Tensor:
    """(b, channels, height, width) twice -> the same; ``others`` are the partners of ``images``"""
    if mix.box is None:
        return mix.share * images + (1 - mix.share) * others
    box, found = mix.box, images.clone()
    inside = (..., slice(box.top, box.bottom), slice(box.left, box.right))
    found[inside] = others[inside]
    return found


def smoothed(labels: Tensor, classes: int, smoothing: float = 0.0) -> Tensor:
    """The right class gets 1 - e, and e is spread over all, the right one too.  (b,) -> (b, c)"""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    return F.one_hot(labels, classes).to(torch.get_default_dtype()) * (1 - smoothing) + smoothing / classes


def mix_labels(labels: Tensor, others: Tensor, mix: Mix, classes: int, smoothing: float = 0.0) -> Tensor:
    """In the same shares as their images.  (b,), (b,) -> (b, c), rows sum to 1"""
    own, theirs = (smoothed(x, classes, smoothing) for x in (labels, others))
    return mix.share * own + (1 - mix.share) * theirs
