"""Mean attention distance: how far from itself a head looks, in pixels of an image or in tokens of a text.

An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), https://arxiv.org/abs/2010.11929, figure 7, right
    mean over q of sum over k of A_qk * p * |g_q - g_k|
with g the row and column of a patch, p pixels a side. It is to attention what the receptive field is to a convolution.
Tokens without a place (a class token) neither look nor are looked at here, and rows are made to sum to 1 without them.
A text that looks at itself is a grid of one axis, and |g_q - g_k| is |q - k|.

Shapes: b batch, h heads, n positions of a grid or a text.
"""

import torch
from torch import Tensor

from regard.errors import InputError
from regard.nn.axis import Axis

from .maps import Map
from .windows import joined_map

EQUATION = "D = mean_q Σ_k A_qk · |g_q − g_k|"
LIMIT = "It does not show what is attended to or whether it is used: uniform weights also give a large distance."


def mean_distance(found: Map, patch: float = 1.0) -> Tensor:
    """Mean attention distance of each example and head; ``patch`` is the distance between neighbouring positions in
    pixels, 1 for text. Maps of windows are measured on the whole image. Rows with all their weight on tokens without a
    grid position are excluded from the mean.

    (b, h, n, n) -> (b, h)
    """
    if found.rows.windows is not None:
        found = joined_map(found)
    grid = common_grid(found)
    weights = found.weights[..., found.rows.special :, found.columns.special :]
    if bool((weights < 0).any()):
        raise InputError("attention distance is not defined for negative weights", where=found.name)
    total = weights.sum(-1)
    placed = total > 0
    far = (weights * grid_distances(grid).to(weights)).sum(-1) / total.where(placed, 1)
    return patch * (far * placed).sum(-1) / placed.sum(-1)


def common_grid(found: Map) -> tuple[int, ...]:
    """The space that both rows and columns walk through."""
    rows, columns = found.rows, found.columns
    if rows.grid is not None and rows.grid == columns.grid:
        return rows.grid
    if rows.grid is None and rows.kind == "text" and same(rows, columns):
        return (rows.size,)
    raise InputError(
        "attention distance needs rows and columns on the same grid, or self-attention over a text",
        where=found.name,
        got=f"{rows.kind} of {rows.grid or rows.size} and {columns.kind} of {columns.grid or columns.size}",
    )


def same(rows: Axis, columns: Axis) -> bool:
    """One and the same text: two that are only as long as each other have no labels to tell them apart."""
    return rows is columns or (rows.labels is not None and rows == columns)


def grid_distances(grid: tuple[int, ...]) -> Tensor:
    """Distances between all pairs of grid positions, in grid steps.  -> (n, n)"""
    places = torch.cartesian_prod(*(torch.arange(size, dtype=torch.float64) for size in grid))
    places = places.view(-1, len(grid))
    return (places[:, None] - places).square().sum(-1).sqrt()
