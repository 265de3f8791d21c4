"""How the small nets of these figures learn from photographs (a part of CIFAR-10) and garments (Fashion-MNIST): images
drawn anew at every step, half of them mirrored, moved by a few pixels.

A taught net is kept in runs/nets below the folder that a figure is computed in: several figures share it, and one that
is interrupted loses no more than the net that was learning. Needs cifar10_subset, or fashion_mnist_30k,
below REGARD_DATA.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.data.files import find_file as found
from regard.modalities.images.sheets import cut_sheet, read_sheet_labels
from regard.train.optimizers import AdamW, build_optimizer, set_rate
from regard.train.schedules import CosineSchedule
from regard.zoo import count_parameters
from regard_lectures.figure import Numbers, seeded
from regard_lectures.labelled_images import garments, said
from regard_lectures.runs import RUNS
from regard_lectures.toys import means

FOLDER, FILES, SIDE = "cifar10_subset", {"train": "train10k", "test": "test2k"}, 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
EVERY = 20  # steps whose losses are drawn as their mean
MEAN, SPREAD = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)  # of each colour, from 0 to 1
WARM, DECAY, CLIP = 0.05, 0.05, 1.0  # the share of steps in which the rate rises; weight decay; the longest gradient


@dataclass(frozen=True)
class Course:
    """How long a net learns, and from which, how many and how varied images."""

    data: Literal["photos", "garments"]
    steps: int
    batch: int = 32
    rate: float = 1e-3
    known: int | None = None  # images, picked by the seed; None: all
    mirrored: bool = True
    moved: int = 2  # pixels, at most, in either direction


@cache
def pixels(split: str) -> Tensor:
    """-> (n, 3, 32, 32), from 0 to 1"""
    tiles = torch.tensor(cut_sheet(found(f"{FOLDER}/{FILES[split]}.webp", Path()), (SIDE, SIDE)))[..., :3]
    return tiles.permute(0, 2, 4, 1, 3).flatten(0, 1) / 255  # (rows, 32, columns, 32, 3) before


def photos(split: str) -> tuple[Tensor, Tensor]:
    """10,000 to learn from, 2,000 to test.  -> (n, 3, 32, 32) of mean 0 and spread 1, about; (n,)"""
    labels = torch.from_numpy(read_sheet_labels(found(f"{FOLDER}/{FILES[split]}_labels.npy", Path())))
    mean, spread = (torch.tensor(part)[:, None, None] for part in (MEAN, SPREAD))
    return (pixels(split) - mean) / spread, labels


SETS = {"photos": photos, "garments": garments}


def known(course: Course, seed: int) -> tuple[Tensor, Tensor]:
    """The images that a net learns from, and their labels."""
    images, labels = SETS[course.data]("train")
    if course.known is None:
        return images, labels
    with seeded(1000 + seed):
        some = torch.randperm(len(images))[: course.known]
    return images[some], labels[some]


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


Loss = Callable[[nn.Module, Tensor, Tensor, int], Tensor]  # of a net, images, labels and the step: their mean


def by_labels(net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    return F.cross_entropy(net(images), labels)


def taught(net: nn.Module, course: Course, seed: int, loss: Loss = by_labels) -> list[float]:
    """AdamW, whose rate rises for a while and falls along a cosine. Batches are by this seed, whatever the net was
    started with. The net is left as it is for use, in ``eval``.

    -> the loss at every step
    """
    images, labels = known(course, seed)
    settings = AdamW(rate=course.rate, betas=(0.9, 0.999), eps=1e-8, decay=DECAY)
    optimizer, schedule = build_optimizer(settings, net.train()), CosineSchedule(warmup=round(WARM * course.steps))
    history = []
    with seeded(seed):
        for step in range(course.steps):
            some = torch.randint(len(images), (course.batch,))
            optimizer.zero_grad()
            value = loss(net, varied(images[some], course), labels[some], step)
            value.backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            set_rate(optimizer, course.rate * schedule.factor(step, course.steps))
            optimizer.step()
            history.append(value.item())
    net.eval()
    return history


@dataclass(frozen=True, eq=False)
class Pupil:
    net: nn.Module
    losses: list[float]  # at every step


def pupil(name: str, make: Callable[[], nn.Module], course: Course, seed: int, loss: Loss = by_labels) -> Pupil:
    """A net that was started and taught by this seed, just now or before."""
    with seeded(seed):
        net = make()
    settings = f"{name}, {count_parameters(net)} weights, {course}, seed {seed}"
    digest = sha256(settings.encode()).hexdigest()[:8]
    path = RUNS / "nets" / f"{course.data}-{name.replace(' ', '-').replace(',', '')}-{seed}-{digest}.safetensors"
    if path.is_file():
        with safe_open(path, "pt") as file:
            net.load_state_dict({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118
            return Pupil(net.eval(), json.loads(file.metadata()["losses"]))
    losses = [round(x, 4) for x in taught(net, course, seed, loss)]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    save_file(net.state_dict(), part, {"settings": settings, "losses": json.dumps(losses)})
    os.replace(part, path)
    return Pupil(net, losses)


def share(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Of images that are labelled rightly by a net in use."""
    return float((said(net.eval(), images) == labels).double().mean())


def paced(history: Sequence[float]) -> list[float]:
    """Means of so many steps each, for a curve that can be read."""
    return [fmean(history[i : i + EVERY]) for i in range(0, len(history), EVERY)]


def class_of(nets: Mapping[str, Callable[[], nn.Module]], course: Course, seeds: Sequence[int]) -> dict[str, Numbers]:
    """Nets of several kinds, each started and taught by every seed.

    -> for each kind: the shares that were labelled rightly, the number of weights, the mean of the losses
    """
    numbers: dict[str, Numbers] = {}
    asked = SETS[course.data]("test")
    for name, make in nets.items():
        pupils = [pupil(name, make, course, seed) for seed in seeds]
        curve = means([paced(one.losses) for one in pupils])
        numbers[name] = {
            "right": [share(one.net, *asked) for one in pupils],
            "weights": count_parameters(pupils[0].net),
            "loss": [round(x, 4) for x in curve],
        }
    return numbers
