"""What a detector makes of images: boxes with a label and a score, in the pixels of each image as it was.

Shapes: b batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from regard.data.faults import DamagedError
from regard.data.locations import DataFolder
from regard.errors import InputError
from regard.modalities.images.classifier import image_path
from regard.modalities.images.pixels import check_and_load, load_image, upright, upright_size
from regard.modalities.images.processor import Images
from regard.modalities.inputs import Picture, in_memory, path_of

from .detection import collate_boxes, decode_boxes

BATCH = 8


@dataclass(frozen=True)
class Thing:
    """A detected object."""

    label: str
    score: float
    box: tuple[float, float, float, float]  # left, top, right, bottom, in pixels
    kind: int  # the label's number


@dataclass(frozen=True)
class Detections:
    """An image and the objects detected in it, sorted by falling score."""

    image: str  # the file's path; empty for an image in memory
    size: tuple[int, int]  # width, height
    things: tuple[Thing, ...]


def open_image(picture: Picture) -> Image.Image:
    """Upright, of mode L or RGB; what cannot be read is refused."""
    return upright(source(picture))


def source(picture: Picture) -> Image.Image:
    """As it was stored, read to its end."""
    try:
        if (image := in_memory(picture)) is not None:
            return check_and_load(image)
        path = image_path(picture)
        return load_image(DataFolder(path.parent).read(path.name))
    except DamagedError as reason:
        raise InputError("the image cannot be read", where=path_of(picture), got=str(reason)) from None


class Detector:
    """A net that detects, with what prepares its images."""

    def __init__(self, net: Any, images: Images, labels: Sequence[str]) -> None:
        self.net, self.images, self.labels = net, images, labels

    def detect(self, pictures: Sequence[Picture], threshold: float) -> list[Detections]:
        """Some at a time, whatever their sizes."""
        if not 0 <= threshold < 1:
            raise InputError("the threshold must be at least 0 and below 1", got=f"{threshold:g}")
        found: list[Detections] = []
        for start in range(0, len(pictures), BATCH):
            some = pictures[start : start + BATCH]
            found += self.spotted(some, threshold)
        return found

    @torch.inference_mode()
    def spotted(self, pictures: Sequence[Picture], threshold: float) -> list[Detections]:
        seen = [self.seen(picture) for picture in pictures]  # small ones: no two large images stand in memory
        nothing = [torch.zeros(0, 4)] * len(seen), [torch.zeros(0, dtype=torch.int64)] * len(seen)
        batch = collate_boxes([pixels for pixels, _ in seen], *nothing)
        sizes = torch.tensor([[height, width] for _, (width, height) in seen])
        told = decode_boxes(self.net(batch.images, batch.sizes), sizes, threshold)
        result = []
        for picture, (_, size), one in zip(pictures, seen, told, strict=True):
            order = one.scores.argsort(descending=True, stable=True).tolist()
            things = tuple(
                self.thing(int(one.classes[i]), float(one.scores[i]), one.boxes[i].tolist(), size) for i in order
            )
            result.append(Detections(path_of(picture), size, things))
        return result

    def seen(self, picture: Picture) -> tuple[Tensor, tuple[int, int]]:
        """(channels, rows, columns), normalised, and the width and height that it had"""
        image = source(picture)
        return self.images.enter(self.net, self.images.shrink(image)), upright_size(image)

    def thing(self, kind: int, score: float, box: Sequence[float], size: tuple[int, int]) -> Thing:
        """A box may reach out of the image a little, and is cut there."""
        left, top, right, bottom = (min(max(x, 0.0), float(most)) for x, most in zip(box, size * 2, strict=True))
        return Thing(self.labels[kind] if self.labels else str(kind), score, (left, top, right, bottom), kind)
