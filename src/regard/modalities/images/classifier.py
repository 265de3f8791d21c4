"""What a model that sees images makes of them: a label.

Shapes: b batch, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.look.answers import rank_classes
from regard.modalities.inputs import PIXELS, Picture, array_fix, in_memory, path_of, type_of

from .processor import Images

IMAGES_AT_ONCE = 32


@dataclass(frozen=True)
class ImageClassification:
    """An image and the probability of each label, the most likely first."""

    image: str  # the file's path; empty for an image in memory
    label: str
    probability: float
    ranked: tuple[tuple[str, float], ...]


class ImageClassifier:
    """A net that sees images, with what prepares them."""

    def __init__(self, net: Any, images: Images, labels: Sequence[str]) -> None:
        self.net, self.images, self.labels = net, images, labels

    def take(self, picture: Picture) -> Tensor:
        """-> (1, channels, height, width), normalised"""
        return self.images.enter(self.net, read_pixels(self.images, picture))[None]

    def classify(self, pictures: Sequence[Picture]) -> list[ImageClassification]:
        """Some at a time; where images keep their sizes or forms, one by one."""
        found, together = [], 1 if self.images.size is None or self.images.fit == "within" else IMAGES_AT_ONCE
        for start in range(0, len(pictures), together):
            some = pictures[start : start + together]
            with torch.inference_mode():
                logits = self.net(torch.cat([self.take(picture) for picture in some]))
            found += [self.told(picture, own) for picture, own in zip(some, logits, strict=True)]
        return found

    def told(self, picture: Picture, logits: Tensor) -> ImageClassification:
        named = tuple((self.labels[i] if self.labels else str(i), chance) for i, chance in rank_classes(logits))
        return ImageClassification(path_of(picture), *named[0], named)


def read_pixels(images: Images, picture: Picture) -> Tensor:
    """As a net will see it, before colours become numbers.  -> (channels, height, width), uint8"""
    image = in_memory(picture)
    return images.read(image_path(picture)) if image is None else images.take_image(image)


def image_path(picture: object) -> Path:
    """Of an image that is no image in memory."""
    if not isinstance(picture, str | Path):
        expected = f"a path, a PIL image, or {PIXELS}"
        raise InputError("the input is not an image", got=type_of(picture), expected=expected, fix=array_fix(picture))
    if not str(picture) or "\0" in str(picture):
        raise InputError("the image path is invalid", got=repr(str(picture))[:100])
    return Path(picture)
