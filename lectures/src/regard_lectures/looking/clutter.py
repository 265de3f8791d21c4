"""A handwritten digit somewhere among scraps of others, and a small ViT that learns to name it: for figures of where it
looks, since the digit's place is known.

An image has 64 x 64 pixels; the scraps are squares cut from other digits of the same set. Everything is drawn afresh
for every batch. Needs the folder mnist below the one that REGARD_DATA names.
"""

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.look.maps import Map, look_at
from regard.look.rollout import over_image, rolled_out
from regard.models.vit import AXES, Config, ViT
from regard_lectures.figure import seeded
from regard_lectures.labelled_images import pixels_of, read, shades
from regard_lectures.toys import fit

IMAGE, DIGIT, SCRAP, SCRAPS = 64, 28, 8, 6  # pixels a side, and how many scraps
SNAP = 8  # digits stand at every so many pixels, so that a short training will do
SIZES = Config(image=IMAGE, patch=8, channels=1, classes=10, dim=64, depth=3, heads=4, hidden=128)
STEPS, BATCH, RATE = 900, 32, 2e-3
INK = 0.2  # what is darker belongs to the digit


@dataclass(frozen=True, eq=False)
class Scenes:
    images: Tensor  # (n, 1, 64, 64), from 0 to 1
    labels: Tensor  # (n,)
    boxes: Tensor  # (n, 64, 64), True within the smallest box around the digit's ink


def scenes(count: int, split: str) -> Scenes:
    digits, labels = digits_of(split)
    chosen = torch.randint(len(digits), (count,))
    torn = digits[torch.randint(len(digits), (count, SCRAPS)), 0]  # (n, scraps, 28, 28)
    images = torch.zeros(count, 1, IMAGE, IMAGE)
    boxes = torch.zeros(count, IMAGE, IMAGE, dtype=torch.bool)
    corners = torch.randint(DIGIT - SCRAP + 1, (count, SCRAPS, 2)).tolist()
    places = torch.randint(IMAGE - SCRAP + 1, (count, SCRAPS, 2)).tolist()
    tops = (SNAP * torch.randint((IMAGE - DIGIT) // SNAP + 1, (count, 2))).tolist()
    for i, (image, box) in enumerate(zip(images[:, 0], boxes, strict=True)):
        for scrap, (row, column), (top, left) in zip(torn[i], corners[i], places[i], strict=True):
            image[top : top + SCRAP, left : left + SCRAP] = scrap[row : row + SCRAP, column : column + SCRAP]
        digit, (top, left) = digits[chosen[i], 0], tops[i]
        inside = image[top : top + DIGIT, left : left + DIGIT]
        torch.maximum(inside, digit, out=inside)
        rows, columns = (digit > INK).nonzero().T
        rows, columns = top + rows, left + columns
        box[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = True
    return Scenes(images, labels[chosen], boxes)


@cache
def digits_of(split: str) -> tuple[Tensor, Tensor]:
    return read("mnist", split)


@cache
def learned(seed: int) -> ViT:
    """It sees a new set of scenes at every step."""
    with seeded(seed):
        net = ViT(SIZES)

        def loss() -> Tensor:
            some = scenes(BATCH, "train")
            return F.cross_entropy(net(some.images), some.labels)

        fit(net.parameters(), loss, steps=STEPS, rate=RATE)
    return net.eval()


@torch.no_grad()
def maps_of(net: ViT, images: Tensor) -> list[Map]:
    """Of all layers, the first one first."""
    looked = look_at(net, "*", lambda: net(images), table=AXES, axes=net.axes(images))
    return list(looked.maps.values())


def looked_through(net: ViT, images: Tensor) -> Tensor:
    """Where the class token's answer comes from, by rollout.  (n, 1, 64, 64) -> (n, 8, 8), each summing to 1"""
    return over_image(rolled_out(maps_of(net, images)))


def per_pixel(cells: Tensor) -> Tensor:
    """The same total, spread evenly over each cell's pixels.  (n, rows, columns) -> (n, 64, 64)"""
    side = IMAGE // cells.shape[-1]
    return cells.repeat_interleave(side, -2).repeat_interleave(side, -1) / side**2


def inked(image: Tensor) -> list[str]:
    """The shades of a scene; the paper on the right of each row is left out, so that a record stays small."""
    return [row.rstrip("0") for row in shades(image)]


def paper(rows: list[str]) -> list[list[int]]:
    """The way back, 0 to 15."""
    return pixels_of([row.ljust(IMAGE, "0") for row in rows])
