"""Maps of windows as one map of the whole image.

Shapes: b batch, w windows, n positions of a window, m positions of the whole grid, h heads.
"""

from dataclasses import replace

import torch
from torch import Tensor

from regard.deprecation import resolve_renamed
from regard.errors import InputError
from regard.nn.axis import Axis, WindowCut

from .maps import Map


def joined_map(found: Map) -> Map:
    """Join the maps of windows into one map of the whole image; weights across windows are 0."""
    cut = found.rows.windows
    if cut is None or cut != found.columns.windows:
        raise InputError("the map is not a map of windows", got=found.name)
    axis = Axis(found.rows.kind, cut.grid[0] * cut.grid[1], grid=cut.grid)
    return replace(found, weights=joined_weights(found.weights, cut), rows=axis, columns=axis)


def joined_weights(weights: Tensor, cut: WindowCut) -> Tensor:
    """(b*w, h, n, n) -> (b, h, m, m)"""
    size = cut.grid[0] * cut.grid[1]
    weights = weights.unflatten(0, (-1, cut.count))
    all_rows = weights.new_zeros(len(weights), weights.shape[2], size, size)
    for window, (real, there) in enumerate(indices(cut)):
        all_rows[:, :, there[:, None], there] = weights[:, window][:, :, real[:, None], real]
    return all_rows


def unwound(x: Tensor, cut: WindowCut) -> Tensor:
    """What each position has, in the order of the whole grid.  (b*w, h, n, e) -> (b, h, m, e)"""
    x = x.unflatten(0, (-1, cut.count))
    found = x.new_zeros(len(x), x.shape[2], cut.grid[0] * cut.grid[1], x.shape[-1])
    for window, (real, there) in enumerate(indices(cut)):
        found[:, :, there] = x[:, window][:, :, real]
    return found


def indices(cut: WindowCut) -> list[tuple[Tensor, Tensor]]:
    """Of each window, the places that are no filling, and where these are in the whole grid."""
    return [(torch.tensor(real), torch.tensor(there)) for real, there in cut.inside()]


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, {"whole": "regard.look.windows.joined_map"})
