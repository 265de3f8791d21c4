"""Tables of tensors that are spread over processes, by torch.distributed.checkpoint, in safetensors files.

What N processes wrote, any number can read: PyTorch cuts and joins the pieces.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, distribute_tensor

Empty = Callable[[str, torch.Size, torch.dtype], Tensor]


def sharded(table: Mapping[str, Tensor]) -> bool:
    return any(isinstance(x, DTensor) for x in table.values())


def write_shards(folder: Path, table: Mapping[str, Tensor]) -> None:
    """Every process writes its own pieces; all call this together."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    save(dict(table), storage_writer=writer)


def read_shards(folder: Path, empty: Empty) -> dict[str, Tensor]:
    """The whole table, or this process's share of it where ``empty`` makes a tensor that is spread."""
    reader = HuggingFaceStorageReader(str(folder))
    table: dict[str, Tensor] = {}
    for name, found in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(found, TensorStorageMetadata)
        table[name] = empty(name, found.size, found.properties.dtype)
    alone = not any(isinstance(x, DTensor) for x in table.values())
    load(table, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=alone)
    return table


def plain(name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def spread(x: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, as the share of it that ``like`` has."""
    return distribute_tensor(x, like.device_mesh, like.placements) if isinstance(like, DTensor) else x
