"""The ViT of the recipe cifar10, which has learned to tell photographs, for figures of what it learned.

The first figure that asks for it trains it. Needs cifar10_subset below REGARD_DATA.
"""

from functools import cache, partial

import torch
from torch import Tensor

from regard.look.distance import mean_distance
from regard.look.maps import look_at
from regard.models.vit import AXES, ViT
from regard_lectures.figure import seeded
from regard_lectures.runs import by_recipe

LOOKED = 256  # unseen photographs over which distances are averaged


@cache
def photographer() -> ViT:
    net = by_recipe("cifar10").net.eval()
    assert isinstance(net, ViT)
    return net


def untaught(seed: int) -> ViT:
    """The same before it has learned anything."""
    with seeded(seed):
        return ViT(photographer().config).eval()


@torch.no_grad()
def distances(net: ViT, images: Tensor) -> Tensor:
    """In pixels, the mean over images.  -> (layers, heads)"""
    found = []
    for some in images.split(64):
        looked = look_at(net, "*", partial(net, some), table=AXES, axes=net.axes(some))
        each = [mean_distance(one, net.config.patch) for one in looked.maps.values()]
        found.append(torch.stack(each).sum(1))
    return torch.stack(found).sum(0) / len(images)
