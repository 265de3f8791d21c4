"""How far drawn images are from real ones, by the mean and covariance of what is measured of each.

    |m1 - m2|^2 + Tr(S1 + S2 - 2 (S1^(1/2) S2 S1^(1/2))^(1/2))
is the distance of two normal distributions (Fréchet, 1957). With the features of a published network it is FID; here it
is asked of the pixels themselves, averaged to a small grid: it needs no network, and no published number may stand
beside it. Whoever has other features gives them in place of ``small_pixels``.

Shapes: b batch, f features.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

GRID = 8  # sides of the grid of pixels

Features = Callable[[Tensor], Tensor]  # (b, c, h, w) -> (b, f)


def small_pixels(images: Tensor) -> Tensor:
    """(b, c, h, w) -> (b, f)"""
    return F.adaptive_avg_pool2d(images, (min(GRID, images.shape[-2]), min(GRID, images.shape[-1]))).flatten(1)


def moment_sums(features: Tensor) -> Tensor:
    """Sums over images, which can be added over batches: of the products of all features, and below of each.
    (b, f) -> (f + 1, f)"""
    x = features.double()
    return torch.cat((x.mT @ x, x.sum(0, keepdim=True)))


def distance_of_sums(one: Tensor, two: Tensor, count: float) -> float:
    """Of the sums of two sets of as many images."""
    (mean, spread), (other_mean, other_spread) = (mean_and_covariance(sums, count) for sums in (one, two))
    root = symmetric_root(spread)
    both = symmetric_root(root @ other_spread @ root)
    apart = (mean - other_mean).square().sum()
    return max(float(apart + (spread + other_spread - 2 * both).trace()), 0.0)


def mean_and_covariance(sums: Tensor, count: float) -> tuple[Tensor, Tensor]:
    """(f + 1, f) -> (f,), (f, f)"""
    mean = sums[-1] / count
    return mean, sums[:-1] / count - mean[:, None] * mean


def symmetric_root(x: Tensor) -> Tensor:
    """The square root of a symmetric matrix without negative eigenvalues, but for rounding."""
    values, vectors = torch.linalg.eigh((x + x.mT) / 2)
    root: Tensor = vectors * values.clamp(min=0).sqrt() @ vectors.mT
    return root
