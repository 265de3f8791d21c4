"""Pictures of clothes (Fashion-MNIST) as rows of few shades, and how well one foretells a pixel who looks at no other.

Needs the folder fashion_mnist_30k below the one that REGARD_DATA names; the split is that of its files.
"""

from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.files import find_file as found
from regard.modalities.images.idx import find_idx, read_idx

FOLDER, SHADES = "fashion_mnist_30k", 8


@cache
def pictures(split: str, side: int) -> Tensor:
    """Made smaller by means of what falls together.  -> (n, side * side), from 0 to SHADES - 1"""
    pixels = torch.from_numpy(read_idx(find_idx(found(FOLDER, Path()), split, "images", 3)).copy())
    small = F.interpolate(pixels[:, None].float(), (side, side), mode="area").flatten(1)
    return (small * (SHADES / 256)).byte()


def drawn(side: int, batch: int) -> Tensor:
    """-> (batch, side * side), of those to learn from"""
    known = pictures("train", side)
    return known[torch.randint(len(known), (batch,))].long()


def held_out(side: int, count: int) -> Tensor:
    """-> (count, side * side)"""
    return pictures("test", side)[:count].long()


def alone(side: int, rows: Tensor, chosen: Tensor | None = None) -> float:
    """Nats of a pixel for one who knows how often each place has each shade, and nothing of its neighbours: of all
    (b, n), or of those that are chosen."""
    known = pictures("train", side)
    counts = torch.stack([(known == shade).sum(0) for shade in range(SHADES)], -1) + 1
    logs = (counts / counts.sum(-1, keepdim=True)).log()
    found = logs[torch.arange(side * side), rows]
    return round(-float((found if chosen is None else found[chosen]).mean()), 5)
