"""Small labelled images in idx files (MNIST, Fashion-MNIST), for nets that a figure trains by the toys' loop."""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.files import find_file as found
from regard.modalities.images.idx import find_idx, read_idx
from regard_lectures.toys import fit


def read(name: str, split: str) -> tuple[Tensor, Tensor]:
    """Of a folder below REGARD_DATA.  -> (n, 1, height, width) from 0 to 1, (n,)"""
    folder = found(name, Path())
    pixels = torch.from_numpy(read_idx(find_idx(folder, split, "images", 3)).copy())[:, None]
    labels = torch.from_numpy(read_idx(find_idx(folder, split, "labels", 1)).copy())
    return pixels / 255, labels.long()


def garments(split: str) -> tuple[Tensor, Tensor]:
    """Fashion-MNIST: -> (n, 1, 28, 28) of mean 0 and spread 1, about; (n,)"""
    pixels, labels = read("fashion_mnist_30k", split)
    return (pixels - 0.286) / 0.353, labels


def learn(model: nn.Module, images: Tensor, labels: Tensor, *, steps: int, batch: int, rate: float) -> list[float]:
    """From some that are drawn anew at every step. -> the loss at every step"""

    def loss() -> Tensor:
        some = torch.randint(len(images), (batch,))
        return F.cross_entropy(model(images[some]), labels[some])

    return fit(model.parameters(), loss, steps=steps, rate=rate)


@torch.no_grad()
def said(model: nn.Module, images: Tensor) -> Tensor:
    """The likeliest label of each.  -> (n,)"""
    return torch.cat([model(some).argmax(-1) for some in images.split(500)])


def right(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share that is labelled rightly."""
    return float((said(model, images) == labels).double().mean())


def shades(image: Tensor) -> list[str]:
    """Sixteen shades, a letter for each pixel, so that a record stays small.  (h, w) from 0 to 1"""
    return ["".join(format(round(float(x) * 15), "x") for x in row) for row in image]


def pixels_of(rows: Sequence[str]) -> list[list[int]]:
    """The way back, 0 to 15."""
    return [[int(x, 16) for x in row] for row in rows]
