"""Maps of windows as one map of the whole image.

Shapes: b batch, w windows, n positions of a window, m positions of the whole grid, h heads.
"""

from dataclasses import replace

import torch
from torch import Tensor

from regard.errors import InputError
from regard.nn.axis import Axis, Cut

from .maps import Map


def whole(found: Map) -> Map:
    """A map whose rows and columns are all positions of the image; nobody looks beyond a window."""
    cut = found.rows.cut
    if cut is None or cut != found.columns.cut:
        raise InputError("this map is not one of windows", got=found.name)
    axis = Axis(found.rows.kind, cut.grid[0] * cut.grid[1], grid=cut.grid)
    return replace(found, weights=joined(found.weights, cut), rows=axis, columns=axis)


def joined(weights: Tensor, cut: Cut) -> Tensor:
    """(b*w, h, n, n) -> (b, h, m, m)"""
    size, columns = cut.grid[0] * cut.grid[1], cut.grid[1]
    weights = weights.unflatten(0, (-1, cut.count))
    all_rows = weights.new_zeros(len(weights), weights.shape[2], size, size)
    for window, places in enumerate(cut.places()):
        real = torch.tensor([i for i, place in enumerate(places) if place is not None])
        there = torch.tensor([place[0] * columns + place[1] for place in places if place is not None])
        all_rows[:, :, there[:, None], there] = weights[:, window][:, :, real[:, None], real]
    return all_rows
