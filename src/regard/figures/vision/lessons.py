"""Photographs (a part of CIFAR-10) beside the garments of ``labelled_images``, and how the small nets of these figures
learn from either: images drawn anew at every step, half of them mirrored, moved by a few pixels.

Needs the folder cifar10_subset below the one that REGARD_DATA names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.sheets import cut, read_numbers
from regard.figures.figure import Numbers, seeded
from regard.figures.labelled_images import said
from regard.figures.toys import fit, means
from regard.run.sources import found
from regard.zoo import parameters

FOLDER, FILES, SIDE = "cifar10_subset", {"train": "train10k", "test": "test2k"}, 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
EVERY = 20  # steps whose losses are drawn as their mean
MEAN, SPREAD = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)  # of each colour, from 0 to 1


@dataclass(frozen=True)
class Course:
    """How long a net learns, and from how varied images."""

    steps: int
    batch: int = 64
    rate: float = 1e-3
    mirrored: bool = True
    moved: int = 2  # pixels, at most, in either direction


@cache
def pixels(split: str) -> Tensor:
    """-> (n, 3, 32, 32), from 0 to 1"""
    tiles = torch.tensor(cut(found(f"{FOLDER}/{FILES[split]}.webp", Path()), (SIDE, SIDE)))[..., :3]
    return tiles.permute(0, 2, 4, 1, 3).flatten(0, 1) / 255  # (rows, 32, columns, 32, 3) before


def photos(split: str) -> tuple[Tensor, Tensor]:
    """10,000 to learn from, 2,000 to test.  -> (n, 3, 32, 32) of mean 0 and spread 1, about; (n,)"""
    labels = torch.from_numpy(read_numbers(found(f"{FOLDER}/{FILES[split]}_labels.npy", Path())))
    mean, spread = (torch.tensor(part)[:, None, None] for part in (MEAN, SPREAD))
    return (pixels(split) - mean) / spread, labels


def varied(images: Tensor, course: Course) -> Tensor:
    """Half of them mirrored, each moved by some pixels; what moves in is the mean of all images, 0.
    (b, c, h, w) -> (b, c, h, w)"""
    if course.mirrored:
        turned = torch.rand(len(images)) < 0.5
        images = torch.where(turned[:, None, None, None], images.flip(-1), images)
    if course.moved:
        height, width = images.shape[-2:]
        wide = F.pad(images, (course.moved,) * 4)
        down, right = torch.randint(2 * course.moved + 1, (2, len(images), 1))
        rows, columns = down + torch.arange(height), right + torch.arange(width)  # (b, h), (b, w)
        some = torch.arange(len(images))[:, None, None]
        images = wide.movedim(1, -1)[some, rows[:, :, None], columns[:, None]].movedim(-1, 1)
    return images


def taught(net: nn.Module, images: Tensor, labels: Tensor, course: Course, seed: int) -> list[float]:
    """Batches by this seed, whatever the net was started with. The net is left as it is for use, in ``eval``.

    -> the loss at every step
    """

    def loss() -> Tensor:
        some = torch.randint(len(images), (course.batch,))
        return F.cross_entropy(net(varied(images[some], course)), labels[some])

    with seeded(seed):
        history = fit(net.train().parameters(), loss, steps=course.steps, rate=course.rate)
    net.eval()
    return history


def share(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Of images that are labelled rightly by a net in use."""
    return float((said(net.eval(), images) == labels).double().mean())


def paced(history: Sequence[float]) -> list[float]:
    """Means of so many steps each, for a curve that can be read."""
    return [fmean(history[i : i + EVERY]) for i in range(0, len(history), EVERY)]


def class_of(
    nets: Mapping[str, Callable[[], nn.Module]],
    known: tuple[Tensor, Tensor],
    asked: tuple[Tensor, Tensor],
    course: Course,
    seeds: Sequence[int],
) -> dict[str, Numbers]:
    """Nets of several kinds, each started and taught by every seed.

    -> for each kind: the shares that were labelled rightly, the number of weights, the mean of the losses
    """
    numbers: dict[str, Numbers] = {}
    for name, make in nets.items():
        right, curves = [], []
        for seed in seeds:
            with seeded(seed):
                net = make()
            curves.append(paced(taught(net, *known, course, seed)))
            right.append(share(net, *asked))
        numbers[name] = {"right": right, "weights": parameters(net), "loss": [round(x, 4) for x in means(curves)]}
    return numbers
