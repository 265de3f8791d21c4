"""The Inception network of 2015 <-> the names of its layers in the published graph, as copies for PyTorch have them.

Each block there counts its convolutions anew: ``conv`` and ``conv_1`` follow each other, ``tower`` is a path.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.models.inception import Inception2015

from .rules import Entry, Rule, check_tensors, convert

PAIRS = {"weight": "weight", "beta": "bias", "mean": "mean", "var": "variance"}

STEM = {"conv": 0, "conv_1": 1, "conv_2": 2, "conv_3": 4, "conv_4": 5}  # places between them are pools


def rules() -> list[Entry]:
    pairs = [(place, part) for place in places().items() for part in PAIRS.items()]
    return [Rule(f"{theirs}.{there}", f"{ours}.{here}") for (theirs, ours), (there, here) in pairs]


def inception_tensors(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file as ours: every one of both is accounted for."""
    found = convert(theirs, rules())
    with torch.device("meta"):
        net = Inception2015()
    expected = {name: tuple(x.shape) for name, x in net.state_dict().items()}
    check_tensors(expected, {name: tuple(x.shape) for name, x in found.items()}, "the Inception network")
    return found


def places() -> dict[str, str]:
    """Where each convolution is, theirs and ours."""
    found = {theirs: f"stem.{i}" for theirs, i in STEM.items()}
    for i in range(11):
        block = f"mixed_{i}" if i else "mixed"
        found |= {f"{block}.{theirs}": f"blocks.{i}.paths.{ours}" for theirs, ours in block_places(i).items()}
    return found


def block_places(i: int) -> dict[str, str]:
    """Path and place in it of each convolution of a block."""
    if i < 3:
        return chain("conv", 0, 1) | chain("tower.conv", 1, 2) | chain("tower_1.conv", 2, 3) | POOLED
    if i == 3:
        return chain("conv", 0, 1) | chain("tower.conv", 1, 3)
    if i < 8:
        return chain("conv", 0, 1) | chain("tower.conv", 1, 3) | chain("tower_1.conv", 2, 5) | POOLED
    if i == 8:
        return chain("tower.conv", 0, 2) | chain("tower_1.conv", 1, 4)
    return (
        chain("conv", 0, 1)
        | {"tower_conv": "1.0", "tower_mixed_conv": "1.1.paths.0", "tower_mixed_conv_1": "1.1.paths.1"}
        | {"tower_1_conv": "2.0", "tower_1_conv_1": "2.1"}
        | {"tower_1_mixed_conv": "2.2.paths.0", "tower_1_mixed_conv_1": "2.2.paths.1"}
        | {"tower_2_conv": "3.1"}
    )


POOLED = {"tower_2.conv": "3.1"}  # the pool is place 0


def chain(name: str, path: int, length: int) -> dict[str, str]:
    """Convolutions that follow each other: conv, conv_1, conv_2 ..."""
    return {f"{name}_{k}" if k else name: f"{path}.{k}" for k in range(length)}
