"""The network of the FID: Inception as it was published on 5 December 2015, up to its 2048 pooled features.

Rethinking the Inception Architecture for Computer Vision (Szegedy et al., 2016), https://arxiv.org/abs/1512.00567
    block(x) = [path_1(x), path_2(x), ...]
Each block looks at its map in several ways, with small and large windows, and stacks the channels that they find.

Every published FID (Heusel et al., 2017, https://arxiv.org/abs/1706.08500) was measured by this file of weights, so it
is a measuring instrument: it has one size, and is not trained here.

Differs from the paper, as the published file does: batch norm has no factor, and eps 1e-3; an average at the border
counts only the pixels that are there; the last block takes a maximum where the one before it takes an average. The
classifier is left out.

Shapes: b batch, d channels, h rows and w columns of a map.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIDE = 299  # of the images that it was trained on, in pixels
EPS = 1e-3


class InceptionConvolution(nn.Module):
    """Convolution, batch norm with the published statistics, ReLU.  (b, d, h, w) -> (b, out, h', w')"""

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int, out: int, rows: int, columns: int, stride: int = 1, padded: bool = True) -> None:
        super().__init__()
        self.stride, self.padding = stride, (rows // 2, columns // 2) if padded else (0, 0)
        self.weight = nn.Parameter(torch.zeros(out, dim, rows, columns))
        self.bias = nn.Parameter(torch.zeros(out))
        self.register_buffer("mean", torch.zeros(out))
        self.register_buffer("variance", torch.ones(out))

    def forward(self, x: Tensor) -> Tensor:
        factor = (self.variance + EPS).rsqrt()  # the norm is linear too: both are one convolution
        weight, shift = self.weight * factor[:, None, None, None], self.bias - self.mean * factor
        return F.relu(F.conv2d(x, weight, shift, self.stride, self.padding))


class SideBySide(nn.Module):
    """All paths from the same map, their channels stacked."""

    def __init__(self, paths: Sequence[nn.Module]) -> None:
        super().__init__()
        self.paths = nn.ModuleList(paths)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([path(x) for path in self.paths], dim=1)


def convolutions(dim: int, *shapes: tuple[int, int, int]) -> list[nn.Module]:
    """One after the other: channels, rows and columns of each."""
    dims = [dim, *(shape[0] for shape in shapes)]
    return [InceptionConvolution(before, *shape) for before, shape in zip(dims, shapes, strict=False)]


def path(dim: int, *shapes: tuple[int, int, int]) -> nn.Sequential:
    return nn.Sequential(*convolutions(dim, *shapes))


def average() -> nn.Module:
    """Zeros beyond the border are not counted."""
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def maximum() -> nn.Module:
    return nn.MaxPool2d(3, 1, 1)


def halving_pool() -> nn.Module:
    return nn.MaxPool2d(3, 2)


def halving(dim: int, out: int) -> nn.Module:
    return InceptionConvolution(dim, out, 3, 3, stride=2, padded=False)


def square_block(dim: int, pooled: int) -> nn.Module:
    """Windows of 1, 5, and twice 3 pixels a side."""
    return SideBySide(
        [
            path(dim, (64, 1, 1)),
            path(dim, (48, 1, 1), (64, 5, 5)),
            path(dim, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
            nn.Sequential(average(), *convolutions(dim, (pooled, 1, 1))),
        ]
    )


def first_halving_block(dim: int) -> nn.Module:
    return SideBySide(
        [
            nn.Sequential(halving(dim, 384)),
            nn.Sequential(*convolutions(dim, (64, 1, 1), (96, 3, 3)), halving(96, 96)),
            nn.Sequential(halving_pool()),
        ]
    )


def line_block(dim: int, inner: int) -> nn.Module:
    """A window of 7 x 7 as a row and a column."""
    return SideBySide(
        [
            path(dim, (192, 1, 1)),
            path(dim, (inner, 1, 1), (inner, 1, 7), (192, 7, 1)),
            path(dim, (inner, 1, 1), (inner, 7, 1), (inner, 1, 7), (inner, 7, 1), (192, 1, 7)),
            nn.Sequential(average(), *convolutions(dim, (192, 1, 1))),
        ]
    )


def second_halving_block(dim: int) -> nn.Module:
    return SideBySide(
        [
            nn.Sequential(*convolutions(dim, (192, 1, 1)), halving(192, 320)),
            nn.Sequential(*convolutions(dim, (192, 1, 1), (192, 1, 7), (192, 7, 1)), halving(192, 192)),
            nn.Sequential(halving_pool()),
        ]
    )


def wide_block(dim: int, pool: nn.Module) -> nn.Module:
    """A window of 3 x 3 as a row beside a column."""
    return SideBySide(
        [
            path(dim, (320, 1, 1)),
            nn.Sequential(*convolutions(dim, (384, 1, 1)), cross(384)),
            nn.Sequential(*convolutions(dim, (448, 1, 1), (384, 3, 3)), cross(384)),
            nn.Sequential(pool, *convolutions(dim, (192, 1, 1))),
        ]
    )


def cross(dim: int) -> nn.Module:
    return SideBySide(convolutions(dim, (dim, 1, 3)) + convolutions(dim, (dim, 3, 1)))


class Inception2015(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            halving(3, 32),
            InceptionConvolution(32, 32, 3, 3, padded=False),
            InceptionConvolution(32, 64, 3, 3),
            halving_pool(),
            InceptionConvolution(64, 80, 1, 1),
            InceptionConvolution(80, 192, 3, 3, padded=False),
            halving_pool(),
        )
        self.blocks = nn.Sequential(
            square_block(192, 32),
            square_block(256, 64),
            square_block(288, 64),
            first_halving_block(288),
            line_block(768, 128),
            line_block(768, 160),
            line_block(768, 160),
            line_block(768, 192),
            second_halving_block(768),
            wide_block(1280, average()),
            wide_block(2048, maximum()),
        )

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, 299, 299), 0 to 255 -> (b, 2048)"""
        if images.shape[1:] != (3, SIDE, SIDE):
            got = " x ".join(map(str, images.shape[1:]))
            raise ValueError(f"images of {got} are not supported, expected 3 x {SIDE} x {SIDE}")
        maps: Tensor = self.blocks(self.stem((images - 128) / 128))
        return maps.mean(dim=(2, 3))
