"""Nets whose grid of positions becomes coarser from stage to stage.

Shapes: b batch, r rows, c columns, d width.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Stage(nn.Module):
    """Blocks at one resolution, after the downsampling layer."""

    def __init__(self, shrink: nn.Module | None, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.shrink, self.blocks = shrink, nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, c, d) -> (b, r', c', d')"""
        x = x if self.shrink is None else self.shrink(x)
        for block in self.blocks:
            x = block(x)
        return x


def join_neighbours(x: Tensor) -> Tensor:
    """Each 2 x 2 positions side by side, column by column; a grid of odd sides is filled up with zeros.

    (b, r, c, d) -> (b, r/2, c/2, 4d)
    """
    x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    return torch.cat([x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)], -1)


def halved_side(side: int, times: int) -> int:
    """Side of the grid after the given number of downsampling steps."""
    return -(-side // 2**times)


def pad_to_patches(images: Tensor, patch: int) -> Tensor:
    """Pad images with zeros at the bottom and right to a multiple of the patch size; empty images are refused later.

    (b, channels, height, width) -> (b, channels, height', width')
    """
    height, width = images.shape[-2:]
    return F.pad(images, (0, -width % patch, 0, -height % patch)) if height and width else images
