"""What a vision transformer has learned of patches: the patterns it tells them by, and which places it takes for near.

An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), https://arxiv.org/abs/2010.11929, figure 7, left and centre

Shapes: d width, c channels, p pixels a side of a patch, n places of a grid.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of filters, in descending order of variance."""

    tiles: Tensor  # (count, c, p, p), each of length 1; its sign means nothing
    shares: Tensor  # (count,), of the filters' variance


def filter_components(filters: Tensor, count: int) -> Components:
    """Principal components of the d filters of a patch embedding (``net.patch.projection.weight``), each a sample in
    the space of a patch's pixels.  (d, c, p, p)
    """
    most = min(len(filters), filters[0].numel())
    if not 1 <= count <= most:
        got = f"{count} components for {len(filters)} filters with {filters[0].numel()} weights"
        raise InputError("the number of components is out of range", got=got, expected=f"1 to {most}")
    rows = filters.flatten(1)
    _, values, directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    return Components(
        directions[:count].unflatten(1, filters.shape[1:]), values[:count].square() / values.square().sum()
    )


def position_similarity(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Cosine similarity between the position embeddings of all grid positions; tokens before the grid are left out.

    (1, special + n, d) or (n, d) -> (rows, columns, rows, columns): [i, j] is the map of row i, column j
    """
    places = positions.flatten(0, -2)[-grid[0] * grid[1] :]
    if len(places) != grid[0] * grid[1]:
        got = f"{len(places)} vectors for {grid[0]} x {grid[1]} positions"
        raise InputError("the number of vectors does not match the grid", got=got)
    unit = F.normalize(places, dim=-1)
    return (unit @ unit.T).unflatten(1, grid).unflatten(0, grid)
