"""Tables of tensors that are spread over processes, by torch.distributed.checkpoint, in safetensors files.

What N processes wrote, any number can read: PyTorch cuts and joins the pieces. Its parts for that are imported where
they are needed: they would slow every start by a second.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from regard.errors import InputError

Empty = Callable[[str, torch.Size, torch.dtype], Tensor]


def is_shard(x: Any) -> bool:
    """Whether a tensor is spread over processes; if nobody has imported that kind, none is."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def gathered(x: Any) -> Tensor:
    """All of a tensor that may be spread."""
    return x.full_tensor() if is_shard(x) else x


T = TypeVar("T", bound=Tensor)


def by_place(tensors: Iterable[T]) -> list[list[T]]:
    """Those that every process has, and those that are spread: PyTorch works on many at once, but not on both."""
    kinds: dict[bool, list[T]] = {False: [], True: []}
    for x in tensors:
        kinds[is_shard(x)].append(x)
    return [some for some in kinds.values() if some]


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Of all of them together, wherever they are."""
    norms = [gathered(get_total_norm(some)) for some in by_place(gradients)]
    return norms[0] if len(norms) == 1 else get_total_norm(norms)


def sharded(table: Mapping[str, Tensor]) -> bool:
    return any(map(is_shard, table.values()))


def write_shards(folder: Path, table: Mapping[str, Tensor]) -> None:
    """Every process writes its own pieces; all call this together, and when one cannot write, it fails in all."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(dict(table), storage_writer=writer)
    except CheckpointException as error:  # no Exception, and many errors in one
        raise next(cause for cause, _ in error.failures.values()) from None


def read_shards(folder: Path, empty: Empty) -> dict[str, Tensor]:
    """The whole table, or this process's share of it where ``empty`` makes a tensor that is spread."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder))
    table: dict[str, Tensor] = {}
    for name, found in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(found, TensorStorageMetadata)
        table[name] = empty(name, found.size, found.properties.dtype)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # that one process reads it by itself
        load(table, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=not sharded(table))
    return table


def plain_tensor(name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def spread(x: Tensor, like: Any) -> Tensor:
    """A whole tensor, as the share of it that ``like`` has."""
    if not is_shard(like):
        return x
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(x, like.device_mesh, like.placements)


@torch.no_grad()
def fill_weights(part: nn.Module, table: Mapping[str, Tensor]) -> None:
    """Every weight from a checkpoint, strictly."""
    state = part.state_dict()
    if wrong := sorted(state.keys() ^ table.keys()):
        raise InputError("the checkpoint belongs to a different model", got=", ".join(wrong[:5]))
    for name, x in state.items():
        if x.shape != table[name].shape:
            raise InputError(
                "the checkpoint belongs to a different model", got=f"{name} of shape {tuple(table[name].shape)}"
            )
        x.copy_(spread(table[name].to(x.device), x))
