"""A checkpoint of another library, once it is read. Light: a model of ours loads without the tables of others."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.decode.symbols import NO_SYMBOLS, Symbols
from regard.errors import CheckpointError
from regard.nn.config import stage_sizes

Read = Callable[[Collection[str]], dict[str, Tensor]]  # the tensors of these names


@dataclass(frozen=True, eq=False)
class ConvertedCheckpoint:
    """A foreign checkpoint, converted."""

    family: str
    config: Any
    state: dict[str, Tensor]
    symbols: Symbols = NO_SYMBOLS
    labels: tuple[str, ...] = ()  # names of classes


def check_plausible(config: Any, tensors: int, where: str) -> None:
    """Refuse a config with more layers than tensors, which would take very long to build."""
    for key in ("depth", "decoder_depth", "depths"):
        depth = getattr(config, key, None)
        if depth is not None and sum(stage_sizes(depth)) > tensors:
            raise CheckpointError(
                "the config has more layers than the checkpoint has tensors",
                where=where,
                got=f"{key} = {depth}, and {tensors} tensors",
                expected="the config of these weights",
            )
