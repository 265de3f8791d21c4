"""Mean attention distance: how far from itself a head looks, in pixels.

An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), https://arxiv.org/abs/2010.11929, figure 7, right
    mean over q of sum over k of A_qk * p * |g_q - g_k|
with g the row and column of a patch, p pixels a side. It is to attention what the receptive field is to a convolution.
Tokens without a place (a class token) neither look nor are looked at here, and rows are made to sum to 1 without them.

Shapes: b batch, h heads, n positions of a grid.
"""

import torch
from torch import Tensor

from regard.errors import InputError

from .maps import Map
from .windows import whole


def mean_distance(found: Map, patch: float = 1.0) -> Tensor:
    """For each image and head; ``patch`` is the pixels from one position to the next. What is cut into windows is
    measured on the whole image. A row all of whose weight is on tokens without a place is left out of the mean.

    (b, h, n, n) -> (b, h)
    """
    if found.rows.cut is not None:
        found = whole(found)
    grid = found.rows.grid
    if grid is None or grid != found.columns.grid:
        raise InputError(
            "a distance needs rows and columns that walk through one grid",
            where=found.name,
            got=f"{found.rows.grid} and {found.columns.grid}",
        )
    weights = found.weights[..., found.rows.special :, found.columns.special :]
    total = weights.sum(-1)
    placed = total > 0
    far = (weights * between(grid).to(weights)).sum(-1) / total.where(placed, 1)
    return patch * (far * placed).sum(-1) / placed.sum(-1)


def between(grid: tuple[int, ...]) -> Tensor:
    """How far each position is from each other one, in steps of the grid.  -> (n, n)"""
    places = torch.cartesian_prod(*(torch.arange(size, dtype=torch.float64) for size in grid))
    places = places.view(-1, len(grid))
    return (places[:, None] - places).square().sum(-1).sqrt()
