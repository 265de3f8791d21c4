"""A small ViT that has learned to tell photographs (a part of CIFAR-10), for figures of what it learned.

Needs the folder cifar10_subset below the one that REGARD_DATA names.
"""

from functools import cache, partial

import torch
from torch import Tensor

from regard.figures.figure import seeded
from regard.figures.vision.lessons import Course, photos, taught
from regard.look.distance import mean_distance
from regard.look.maps import look_at
from regard.models.vit import AXES, Config, ViT

SIZES = Config(image=32, patch=4, classes=10, dim=64, depth=4, heads=4, hidden=128)
COURSE = Course(steps=700, batch=32, rate=2e-3)
LOOKED = 256  # unseen photographs over which distances are averaged


@cache
def photographer(seed: int) -> ViT:
    images, labels = photos("train")
    with seeded(seed):
        net = ViT(SIZES)
    taught(net, images, labels, COURSE, seed)
    return net


def untaught(seed: int) -> ViT:
    """The same before it has learned anything."""
    with seeded(seed):
        return ViT(SIZES).eval()


@torch.no_grad()
def distances(net: ViT, images: Tensor) -> Tensor:
    """In pixels, the mean over images.  -> (layers, heads)"""
    found = []
    for some in images.split(64):
        looked = look_at(net, "*", partial(net, some), table=AXES, axes=net.axes(some))
        found.append(torch.stack([mean_distance(one, SIZES.patch) for one in looked.maps.values()]).sum(1))
    return torch.stack(found).sum(0) / len(images)
