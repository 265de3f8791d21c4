"""Generated images with boxes: coloured squares, discs and triangles before a background that is like nothing.

Each row is drawn by its address, so that a row is the same whatever was drawn before it, and any number of them needs
no files. A shape's box is where its outline ends, to the fraction of a pixel; shapes may overlap a little, and the
later one lies above.

Shapes: s pixels a side, m shapes of an image.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.counter_rng import SHAPES, philox, uniform_samples
from regard.data.faults import Fault
from regard.data.rows import IntegerArray
from regard.errors import InputError

from .annotations import Boxed

SHAPE_NAMES = ("square", "disc", "triangle")
SMALLEST, LARGEST = 0.15, 0.45  # of a shape, as shares of the image's side
COMMON = 0.2  # the largest share of the smaller of two boxes that is in both
TRIES = 20  # to find such a place; a shape that finds none is left out, but the first always has one
STROKES = 6  # lines in the background, which end nowhere in particular
ROUGH = 6  # places a side between which the background's colours are mixed

Pixels = NDArray[np.float64]


class Shapes:
    """Rows: ``count`` images of ``side`` x ``side`` with 1 to ``most`` shapes; another seed, other images."""

    def __init__(self, count: int, seed: int, side: int = 64, most: int = 4) -> None:
        if min(count, most) < 1 or side < 16:
            got = f"{count} images of {side} x {side} pixels with up to {most} shapes"
            raise InputError(
                "invalid size or number of images", got=got, expected="at least 1 image, 16 x 16 pixels and 1 shape"
            )
        self.count, self.seed, self.side, self.most = count, seed, side, most
        self.faults: tuple[Fault, ...] = ()
        self.lengths: IntegerArray | None = None
        self.labels = SHAPE_NAMES

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Boxed:
        if not 0 <= i < len(self):
            raise IndexError(f"image index {i} is out of range for {len(self)} images")
        numbers = philox(SHAPES, self.seed, 0, i)
        image = background(self.side, numbers)
        boxes: list[tuple[float, float, float, float]] = []
        classes = []
        for _ in range(1 + int(self.most * uniform_samples(numbers, 1)[0])):
            kind, colour = int(len(SHAPE_NAMES) * uniform_samples(numbers, 1)[0]), vivid(numbers)
            if (box := place(boxes, numbers)) is None:
                continue
            paint(image, covered(SHAPE_NAMES[kind], box, self.side), colour)
            boxes.append(box)
            classes.append(kind)
        image += 0.04 * (uniform_samples(numbers, image.size).reshape(image.shape) - 0.5)
        pixels = torch.from_numpy((255 * image.clip(0, 1)).round().astype(np.uint8))
        return Boxed(pixels.permute(2, 0, 1).contiguous(), torch.tensor(boxes).float(), torch.tensor(classes))

    def where(self, i: int) -> str:
        return f"generated image {i}"


def place(
    others: list[tuple[float, float, float, float]], numbers: np.random.Philox
) -> tuple[float, float, float, float] | None:
    """A square box within the image that has little in common with the others: centre x and y, width, height."""
    for _ in range(TRIES):
        size, x, y = uniform_samples(numbers, 3).tolist()
        size = SMALLEST + (LARGEST - SMALLEST) * size
        box = size / 2 + (1 - size) * x, size / 2 + (1 - size) * y, size, size
        if all(common(box, other) <= COMMON for other in others):
            return box
    return None


def common(one: tuple[float, ...], two: tuple[float, ...]) -> float:
    """The share of the smaller of two square boxes that is in both."""
    reach = (one[2] + two[2]) / 2
    across, down = (min(reach - abs(one[i] - two[i]), one[2], two[2]) for i in (0, 1))
    return max(across, 0.0) * max(down, 0.0) / min(one[2], two[2]) ** 2


def covered(kind: str, box: tuple[float, float, float, float], side: int) -> Pixels:
    """How much of each pixel is within the outline, by its middle's distance from that.  -> (s, s), 0 to 1"""
    middle = np.arange(side) + 0.5
    x, y = middle[None] - box[0] * side, middle[:, None] - box[1] * side
    half = box[2] * side / 2
    if kind == "square":
        beyond = np.maximum(abs(x), abs(y)) - half
    elif kind == "disc":
        beyond = np.hypot(x, y) - half
    else:  # two sides that meet above, and the ground
        steep = math.hypot(1, 2)
        beyond = np.maximum((2 * abs(x) - y - half) / steep, y - half)
    found: Pixels = (0.5 - beyond).clip(0, 1)
    return found


def vivid(numbers: np.random.Philox) -> Pixels:
    """A strong colour: one part high, one low, one between, in any order."""
    first, second, third, order = uniform_samples(numbers, 4).tolist()
    parts = 0.8 + 0.2 * first, 0.15 * second, third
    turns = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))[int(6 * order)]
    return np.array([parts[i] for i in turns])


def background(side: int, numbers: np.random.Philox) -> Pixels:
    """Pale colours that run into each other, and thin lines across.  -> (s, s, 3)"""
    coarse = 0.35 + 0.45 * uniform_samples(numbers, ROUGH * ROUGH * 3).reshape(ROUGH, ROUGH, 3)
    place = np.linspace(0, ROUGH - 1, side)
    low = place.astype(int).clip(max=ROUGH - 2)
    part = place - low
    weights = np.zeros((side, ROUGH))
    weights[np.arange(side), low], weights[np.arange(side), low + 1] = 1 - part, part
    image: Pixels = np.tensordot(weights, np.tensordot(weights, coarse, (1, 1)), (1, 1)).copy()
    middle = (np.arange(side) + 0.5) / side
    for _ in range(STROKES):
        x, y, angle, long, *colour = uniform_samples(numbers, 7).tolist()
        across, down = middle[None] - x, middle[:, None] - y
        cos, sin = math.cos(math.pi * angle), math.sin(math.pi * angle)
        ink = 1 - abs(down * cos - across * sin) * side
        ink[abs(across * cos + down * sin) > 0.1 + 0.3 * long] = 0.0
        paint(image, ink, np.array(colour))
    return image


def paint(image: Pixels, ink: Pixels, colour: Pixels) -> None:
    """Mixed into those pixels that have any ink.  (s, s, 3), (s, s), (3,)"""
    place = np.nonzero(ink > 0)
    share = ink[place][:, None]
    image[place] += share * (colour - image[place])
