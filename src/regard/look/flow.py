"""Attention flow: how much an output could have received from each input, if every weight were the width of a pipe.

Quantifying Attention Flow in Transformers (Abnar and Zuidema, 2020), https://arxiv.org/abs/2005.00928
The layers' positions are nodes; from a position of one layer to one of the layer below leads a pipe as wide as
A'_l = (mean over heads of A_l + 1) / 2. What an input gives is the largest flow from the output down to it: no pipe is
multiplied with the next, as rollout does; the narrowest place decides. For each input one such problem is solved, each
over all layers, so it is the costlier twin (``look.rollout``).

It does not tell what an output used: only what could have passed, had all passed that could.

Shapes: b batch, h heads, n positions.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from regard.deprecation import resolve_renamed
from regard.errors import InputError
from regard.nn.axis import Axis

from .maps import Map
from .rollout import with_residual

UNIT = 1 << 20  # flows are whole numbers: so many to a weight of 1

EQUATION = "F_j = max flow from the output to input j, with capacities Ã = (mean_h A + 1) / 2"
LIMIT = "It does not show what an output used: only how much could have reached it at most."


def go_on() -> None:
    """Nothing stops it."""


def attention_flow(maps: Iterable[Map], output: int = 0, pause: Callable[[], None] = go_on) -> Map:
    """Maximum flow from each input position to one output position, through all self-attention layers, rescaled to sum
    to 1.  ``pause`` is called before each position and may raise, to stop.
    (b, h, n, n) each -> one head and one row, (b, 1, 1, n)
    """
    layers = list(maps)
    mixed = with_residual(layers)
    length = mixed[0].shape[-1]
    if not 0 <= output < length:
        raise InputError("output position out of range", got=str(output), expected=f"0 to {length - 1}")
    flows = torch.stack([flow_row([one[i] for one in mixed], output, pause) for i in range(len(mixed[0]))]).to(mixed[0])
    asked = layers[-1].rows
    rows = Axis(asked.kind, 1, asked.labels and (asked.labels[output],))
    weights = (flows / flows.sum(-1, keepdim=True))[:, None, None]
    return replace(layers[-1], name="flow", weights=weights, rows=rows, columns=layers[0].columns)


def flow_row(layers: list[Tensor], output: int, pause: Callable[[], None] = go_on) -> Tensor:
    """The largest flow from one output to each input.  (n, n) each, the first layer first -> (n,)"""
    depth, length = len(layers), layers[0].shape[-1]
    pipes = network([np.rint(layer.double().cpu().numpy() * UNIT).astype(np.int32) for layer in layers])
    source = depth * length + output
    found = []
    for i in range(length):
        pause()
        found.append(maximum_flow(pipes, source, i).flow_value / UNIT)
    return torch.tensor(found)


def network(widths: list[NDArray[np.int32]]) -> csr_array:
    """Node l n + i is position i before layer l; pipes lead down."""
    length = len(widths[0])
    down, low = np.divmod(np.arange(length * length), length)
    starts = np.concatenate([(i + 1) * length + down for i in range(len(widths))])
    ends = np.concatenate([i * length + low for i in range(len(widths))])
    size = (len(widths) + 1) * length
    return csr_array((np.concatenate([one.ravel() for one in widths]), (starts, ends)), shape=(size, size))


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, {"flowed": "regard.look.flow.attention_flow"})
