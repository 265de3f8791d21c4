"""Folders of tensors, read with suspicion.

A file from elsewhere may lie. Every size is compared with the file's length before memory is asked for, every name
must stay in its folder, and what cannot be read in full is a CheckpointError that names the file and the reason.
Nothing here runs code from a file: safetensors and JSON only. `.bin` and `.pt` are for `regard.interop.pickled`.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.errors import CheckpointError
from regard.storage.documents import parse_json, read_json
from regard.storage.untrusted import (
    is_integer,
    is_plain_name,
    list_names,
    open_regular,
    problem_lines,
    quote_name,
    refuse_file,
)

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
}
HEADER_BYTES = 100_000_000  # the format's own limit
AXES = 64  # torch's own limit
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")


class Info(NamedTuple):
    """What a header says of one tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Weights:
    """The tensors of one file or of a set of shards: headers checked, data not yet read."""

    header: dict[str, Info]
    metadata: dict[str, str]
    homes: dict[str, Path]  # the file that each tensor is in

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: info.shape for name, info in self.header.items()}

    def meta(self) -> dict[str, Tensor]:
        """Tensors without data, to check a conversion with."""
        return {name: torch.empty(x.shape, dtype=x.dtype, device="meta") for name, x in self.header.items()}

    def only(self, names: Collection[str]) -> "Weights":
        """Some of them: the others are not read."""
        header = {name: info for name, info in self.header.items() if name in names}
        return Weights(header, self.metadata, {name: self.homes[name] for name in header})

    def read(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The tensors, in the header's order. Floating ones narrower than ``dtype`` are widened, none is narrowed."""
        found: dict[str, Tensor] = {}
        for path in dict.fromkeys(self.homes.values()):
            try:
                with safe_open(path, framework="pt", device="cpu") as file:
                    for name in (name for name, home in self.homes.items() if home == path):
                        found[name] = file.get_tensor(name)
            except (OSError, SafetensorError, ValueError, RuntimeError) as error:
                refuse_file(path, f"cannot be read: {error}")
        for name, info in self.header.items():
            if found[name].dtype != info.dtype or tuple(found[name].shape) != info.shape:
                refuse_file(self.homes[name], f"tensor {quote_name(name)} changed while it was being read")
        return {name: widened_dtype(found[name], dtype) for name in self.header}


def widened_dtype(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    narrow = dtype is not None and tensor.is_floating_point() and tensor.dtype.itemsize < dtype.itemsize
    return tensor.to(dtype) if narrow else tensor


def open_weights(folder: Path) -> Weights:
    """The weights of a folder: model.safetensors, or an index and its shards, or the only safetensors file."""
    folder = Path(folder)
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        refuse_file(folder, f"the folder cannot be read: {error.strerror}")
    if "model.safetensors" in names:
        return weights_in(folder / "model.safetensors")
    if "model.safetensors.index.json" in names:
        return gathered(folder / "model.safetensors.index.json")
    single = [name for name in names if name.endswith(".safetensors")]
    if len(single) == 1:
        return weights_in(folder / single[0])
    if single:
        raise CheckpointError(
            "the folder has several weights files, and none is named model.safetensors",
            where=str(folder),
            got=list_names(single),
            expected="model.safetensors, or model.safetensors.index.json with its shards, or one *.safetensors",
            fix="rename the file to use to model.safetensors, or move it to its own folder",
        )
    if pickled := [name for name in names if name.endswith(PICKLED)]:
        raise CheckpointError(
            "the folder has weights only in a format that can execute code, which is never loaded automatically",
            where=str(folder),
            got=list_names(pickled),
            expected="*.safetensors",
            fix=f"run `regard convert {folder} OUT`, which reads .bin and .pt files with a restricted reader",
        )
    refuse_file(folder, "the folder has no weights", expected="model.safetensors")


def weights_in(path: Path) -> Weights:
    """One safetensors file, its header checked to the last byte before the file goes anywhere else."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8:
                refuse_file(path, f"the file has {size} bytes, too few for a header")
            if length > min(HEADER_BYTES, size - 8):
                refuse_file(
                    path, f"the header claims {length} bytes, but the file has {size} and the limit is {HEADER_BYTES}"
                )
            raw = file.read(length)
    except OSError as error:
        refuse_file(path, f"cannot be read: {error.strerror}")
    if raw[:1] != b"{":
        refuse_file(path, "the header does not begin with '{'")
    fields = parse_json(raw, path)
    metadata = fields.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        refuse_file(path, "__metadata__ is not an object of strings")
    spans: list[tuple[int, int, str]] = []
    header: dict[str, Info] = {}
    for name, entry in fields.items():
        if not name.isprintable() or len(name) > 1000:  # it will stand in messages
            refuse_file(path, f"{quote_name(name)} cannot be a tensor's name")
        header[name] = info_of(name, entry, path)
        spans.append((*entry["data_offsets"], name))
    reached = 0
    for start, end, name in sorted(spans):
        if start != reached:
            kind = "overlaps another tensor" if start < reached else "leaves a gap before it"
            refuse_file(
                path,
                f"tensor {quote_name(name)} {kind}: it starts at byte {start}, the data before it ends at {reached}",
            )
        reached = end
    if reached != size - 8 - length:
        refuse_file(path, f"the tensors need {reached} bytes, but the file has {size - 8 - length} for them")
    return Weights(header, metadata, dict.fromkeys(header, path))


def info_of(name: str, entry: Any, path: Path) -> Info:
    """One tensor's line of the header, each number in range and all of them in agreement."""

    def wrong(what: str, expected: str = "") -> NoReturn:
        refuse_file(path, f"tensor {quote_name(name)} {what}", expected=expected)

    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        wrong("must have exactly the keys dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        wrong(f"has an unknown dtype {quote_name(kind)}", ", ".join(DTYPES))
    if not isinstance(shape, list) or len(shape) > AXES or not all(map(is_integer, shape)):
        wrong("has an invalid shape", f"at most {AXES} non-negative integers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_integer, offsets)):
        wrong("has invalid data_offsets", "two non-negative integers")
    # With zeros left out, so that an empty tensor cannot carry a size whose strides overflow.
    if prod(filter(None, shape)) * DTYPES[kind].itemsize >= 2**63:
        wrong(f"has an impossible shape {tuple(shape)}")
    if offsets[1] - offsets[0] != (need := prod(shape) * DTYPES[kind].itemsize):
        wrong(f"needs {need} bytes for {kind} {tuple(shape)}, but its offsets give {offsets[1] - offsets[0]}")
    return Info(DTYPES[kind], tuple(shape))


def gathered(index: Path) -> Weights:
    """The shards of an index, as one. Each tensor is where the index says, and nowhere else."""
    homes = shards(index, ".safetensors")
    parts = {path: weights_in(path) for path in dict.fromkeys(homes.values())}
    agree(index, homes, {path: list(part.header) for path, part in parts.items()})
    metadata = [part.metadata.items() for part in parts.values()]
    common = dict(pair for pair in metadata[0] if all(pair in other for other in metadata))
    return Weights({name: parts[path].header[name] for name, path in homes.items()}, common, homes)


def shards(index: Path, suffix: str) -> dict[str, Path]:
    """Tensor -> shard, as an index says, every shard a regular file that really lies in the index's folder."""
    homes = read_json(index).get("weight_map")
    if not isinstance(homes, dict) or not homes or not all(isinstance(name, str) for name in homes.values()):
        refuse_file(index, "weight_map does not map tensor names to file names")
    checked = {name: inside(index, name, suffix) for name in dict.fromkeys(homes.values())}
    return {tensor: checked[name] for tensor, name in homes.items()}


def inside(index: Path, name: str, suffix: str) -> Path:
    folder, fix = index.parent, ""
    if not is_plain_name(name) or not name.endswith(suffix):
        reason = "is not a plain name of a weights file"
    else:
        try:
            real = (folder / name).resolve()
            if real.is_relative_to(folder.resolve()) or real.parent == blobs_of(folder):
                if real.is_file():
                    return folder / name
                reason = "is missing or is not a regular file"
            else:
                reason = "is a link that points outside the folder"
                fix = "copy the files themselves into the folder (cp -L)"
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a name that the system cannot take
            reason = "cannot be resolved"
    refuse_file(
        index, f"the shard {quote_name(name)} {reason}", expected=f"a *{suffix} file in the same folder", fix=fix
    )


def blobs_of(folder: Path) -> Path | None:
    """Where a folder of Hugging Face's cache keeps its files: NAME/snapshots/REVISION has links to NAME/blobs."""
    real = folder.resolve()
    return real.parents[1] / "blobs" if real.parent.name == "snapshots" and len(real.parents) > 1 else None


def agree(index: Path, homes: Mapping[str, Path], found: Mapping[Path, list[str]]) -> None:
    """Compare what an index promises with what its shards hold, all differences in one error."""
    problems = []
    held = {path: set(names) for path, names in found.items()}
    for name, path in homes.items():
        if name not in held[path]:
            problems.append(f"{quote_name(name)}: missing from {path.name}")
    for path, names in found.items():
        for name in names:
            if name not in homes:
                problems.append(f"{quote_name(name)}: in {path.name}, but not in the index")
            elif homes[name] != path:
                problems.append(f"{quote_name(name)}: in {path.name}, but the index says {homes[name].name}")
    if problems:
        raise CheckpointError(
            f"the index and its shards disagree: {len(problems)} problem{'s' if len(problems) > 1 else ''}",
            where=str(index),
            got=problem_lines(problems),
            expected="each tensor in the shard that the index names, and in no other",
            fix="download the folder again: its files are from different checkpoints",
        )
