"""Attention rollout: what a position of the last layer has seen of the input, through all layers.

Quantifying Attention Flow in Transformers (Abnar and Zuidema, 2020), https://arxiv.org/abs/2005.00928
    A'_l = (mean over heads of A_l + 1) / 2,    R = A'_L ... A'_1
Half of what leaves a layer is what entered it, the residual, and half is what was looked at. The last layer stands
leftmost, so a row of R belongs to an output and a column to an input.

This is a walk along weights that sum to 1. What has none (a Fourier transform, an MLP over positions, a mechanism whose
weights may be negative) is refused, and so are windows until they are one map (``look.windows.joined_map``).

Shapes: b batch, h heads, n positions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.errors import InputError

from .maps import Map

CLOSE = 1e-3  # rows sum to 1 up to that, in half precision too

EQUATION = "R = Ã_L … Ã_1, Ã = (mean_h A + 1) / 2"
LIMIT = "It does not show what is computed from the inputs: values, feed-forward layers and signs are ignored."


def rolled_out(maps: Iterable[Map]) -> Map:
    """Rollout over all self-attention layers, from the first to the last: ``rolled_out(looked.maps.values())``.

    (b, h, n, n) each -> one head, (b, 1, n, n), whose rows sum to 1
    """
    layers = list(maps)
    total, *later = with_residual(layers)
    for layer in later:
        total = layer @ total
    return replace(layers[-1], name="rollout", weights=total[:, None], columns=layers[0].columns)


def with_residual(layers: Sequence[Map]) -> list[Tensor]:
    """A' of each layer, (b, n, n), whose rows sum to 1."""
    if not layers:
        raise InputError("rollout needs at least one attention map")
    for layer in layers:
        check_stochastic(layer)
        if layer.weights.shape[-1] != layers[0].weights.shape[-1]:
            raise InputError(
                "rollout needs layers of the same sequence length",
                where=layer.name,
                got=f"{layer.weights.shape[-1]} positions",
                expected=f"{layers[0].weights.shape[-1]}, as in {layers[0].name}",
            )
    own = torch.eye(layers[0].weights.shape[-1]).to(layers[0].weights)
    mixed = [(layer.weights.mean(1) + own) / 2 for layer in layers]
    return [one / one.sum(-1, keepdim=True) for one in mixed]


def check_stochastic(layer: Map) -> None:
    """Rows of shares, over the same positions as they stand for."""
    if layer.kind != "weights":
        what = "rollout needs attention weights, and this layer only has an influence map"
        raise InputError(what, where=layer.name, got=layer.kind, expected="weights")
    if layer.rows.windows is not None:
        raise InputError(
            "rollout needs one map of the whole image, not maps of windows",
            where=layer.name,
            fix="join them with regard.look.windows.joined_map",
        )
    rows, columns = layer.weights.shape[-2:]
    if rows != columns:
        got = f"{rows} queries and {columns} keys"
        raise InputError("rollout needs self-attention maps", where=layer.name, got=got)
    least = float(layer.weights.min())
    off = float((layer.weights.sum(-1) - 1).abs().max())
    if least < -CLOSE or off > CLOSE:
        got = f"a weight of {least:.3g}" if least < -CLOSE else f"a row sum that is off by {off:.3g}"
        raise InputError("rollout needs attention rows that sum to 1", where=layer.name, got=got)


def over_image(found: Map) -> Tensor:
    """The weights of the class token on each patch; without a class token, the mean over all queries. Heads are
    averaged; other tokens are left out, and the rest is rescaled to sum to 1.  (b, h, n, n) -> (b, rows, columns)
    """
    axis = found.columns
    if axis.grid is None or len(axis.grid) != 2:
        raise InputError("the map does not belong to an image", where=found.name, got=f"an axis of {axis.kind}")
    weights = found.weights.mean(1)
    seen = (weights[:, 0] if axis.special else weights.mean(1))[:, axis.special :]
    return (seen / seen.sum(-1, keepdim=True)).unflatten(-1, axis.grid)
