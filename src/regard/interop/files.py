"""Folders of tensors, read with suspicion and written in one piece.

A file from elsewhere may lie. Every size is compared with the file's length before memory is asked for, every name
must stay in its folder, and what cannot be read in full is a CheckpointError that names the file and the reason.
Nothing here runs code from a file: safetensors and JSON only. `.bin` and `.pt` are for `regard.interop.pickled`.
"""

import ctypes
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import CheckpointError, InputError

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
JSON_BYTES = 16_000_000
TEXT_BYTES = 100_000_000  # a tokenizer of a million words
HEADER_BYTES = 100_000_000  # the format's own limit
JSON_VALUES = 2_000_000  # a parsed value takes some 100 bytes, so this bounds what a small text can grow into
JSON_DEPTH = 64
AXES = 64  # torch's own limit
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")


@dataclass(frozen=True)
class Info:
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

    def read(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The tensors, in the header's order. Floating ones narrower than ``dtype`` are widened, none is narrowed."""
        found: dict[str, Tensor] = {}
        for path in dict.fromkeys(self.homes.values()):
            try:
                with safe_open(path, framework="pt", device="cpu") as file:
                    for name in (name for name, home in self.homes.items() if home == path):
                        found[name] = file.get_tensor(name)
            except (OSError, SafetensorError, ValueError, RuntimeError) as error:
                refuse(path, f"cannot be read: {error}")
        for name, info in self.header.items():
            if found[name].dtype != info.dtype or tuple(found[name].shape) != info.shape:
                refuse(self.homes[name], f"tensor {shown(name)} changed while it was being read")
        return {name: widened(found[name], dtype) for name in self.header}


def widened(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    narrow = dtype is not None and tensor.is_floating_point() and tensor.dtype.itemsize < dtype.itemsize
    return tensor.to(dtype) if narrow else tensor


# ---------------------------------------------------------------------------------------------------------- finding


def weights_of(folder: Path) -> Weights:
    """The weights of a folder: model.safetensors, or an index and its shards, or the only safetensors file."""
    folder = Path(folder)
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        refuse(folder, f"the folder cannot be read: {error.strerror}")
    if "model.safetensors" in names:
        return weights_in(folder / "model.safetensors")
    if "model.safetensors.index.json" in names:
        return gathered(folder / "model.safetensors.index.json")
    single = [name for name in names if name.endswith(".safetensors")]
    if len(single) == 1:
        return weights_in(folder / single[0])
    if single:
        raise CheckpointError(
            "the folder has several weights files and none is called model.safetensors",
            where=str(folder),
            got=", ".join(map(shown, single)),
            expected="model.safetensors, or model.safetensors.index.json with its shards, or one *.safetensors",
            fix="rename the one to use to model.safetensors, or put it into a folder of its own",
        )
    if pickled := [name for name in names if name.endswith(PICKLED)]:
        raise CheckpointError(
            "the folder holds weights only in a form that can run code, which is never read silently",
            where=str(folder),
            got=", ".join(map(shown, pickled)),
            expected="*.safetensors",
            fix=f"`regard convert {folder} OUT` reads .bin and .pt files with a restricted reader, on request only",
        )
    refuse(folder, "the folder has no weights", expected="model.safetensors")


def weights_in(path: Path) -> Weights:
    """One safetensors file, its header checked to the last byte before the file goes anywhere else."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8:
                refuse(path, f"the file has {size} bytes, too few for a header")
            if length > min(HEADER_BYTES, size - 8):
                refuse(path, f"the header claims {length} bytes, the file has {size} and the limit is {HEADER_BYTES}")
            raw = file.read(length)
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror}")
    if raw[:1] != b"{":
        refuse(path, "the header does not begin with '{'")
    fields = parsed(raw, path)
    metadata = fields.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        refuse(path, "__metadata__ is not a table of texts")
    spans: list[tuple[int, int, str]] = []
    header: dict[str, Info] = {}
    for name, entry in fields.items():
        if not name.isprintable() or len(name) > 1000:  # it will stand in messages
            refuse(path, f"{shown(name)} cannot be a tensor's name")
        header[name] = info_of(name, entry, path)
        spans.append((*entry["data_offsets"], name))
    reached = 0
    for start, end, name in sorted(spans):
        if start != reached:
            kind = "overlaps another" if start < reached else "leaves a hole before it"
            refuse(path, f"tensor {shown(name)} {kind}: it starts at byte {start}, the data before ends at {reached}")
        reached = end
    if reached != size - 8 - length:
        refuse(path, f"the tensors take {reached} bytes, the file has {size - 8 - length} for them")
    return Weights(header, metadata, dict.fromkeys(header, path))


def info_of(name: str, entry: Any, path: Path) -> Info:
    """One tensor's line of the header, each number in range and all of them in agreement."""
    where = f"tensor {shown(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        refuse(path, f"{where} needs exactly dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        refuse(path, f"{where} has the unknown dtype {shown(kind)}", expected=", ".join(DTYPES))
    if not isinstance(shape, list) or len(shape) > AXES or not all(whole(x) for x in shape):
        refuse(path, f"{where} has no valid shape", expected=f"at most {AXES} whole numbers, none negative")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(whole(x) for x in offsets):
        refuse(path, f"{where} has no valid data_offsets", expected="two whole numbers, none negative")
    # With zeros left out, so that an empty tensor cannot carry a size whose strides overflow.
    if prod(x for x in shape if x) * DTYPES[kind].itemsize >= 2**63:
        refuse(path, f"{where} has the impossible shape {tuple(shape)}")
    if offsets[1] - offsets[0] != (need := prod(shape) * DTYPES[kind].itemsize):
        refuse(
            path, f"{where} needs {need} bytes for {kind} {tuple(shape)}, its offsets give {offsets[1] - offsets[0]}"
        )
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
        refuse(index, "weight_map is not a table of tensor and file names")
    checked = {name: inside(index, name, suffix) for name in dict.fromkeys(homes.values())}
    return {tensor: checked[name] for tensor, name in homes.items()}


def inside(index: Path, name: str, suffix: str) -> Path:
    folder, fix = index.parent, ""
    if not plain(name) or not name.endswith(suffix):
        reason = "is not the plain name of a weights file"
    else:
        try:
            real = (folder / name).resolve()
            if real.is_relative_to(folder.resolve()):
                if real.is_file():
                    return folder / name
                reason = "is not there, or is no regular file"
            else:
                reason = "is a link that leaves the folder"
                fix = "copy the files themselves into the folder (cp -L)"
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a name that the system cannot take
            reason = "cannot be resolved"
    refuse(index, f"the shard {shown(name)} {reason}", expected=f"a *{suffix} file in the same folder", fix=fix)


def agree(index: Path, homes: Mapping[str, Path], found: Mapping[Path, list[str]]) -> None:
    """Compare what an index promises with what its shards hold, all differences in one error."""
    problems = []
    held = {path: set(names) for path, names in found.items()}
    for name, path in homes.items():
        if name not in held[path]:
            problems.append(f"{shown(name)}: missing from {path.name}")
    for path, names in found.items():
        for name in names:
            if name not in homes:
                problems.append(f"{shown(name)}: in {path.name}, but not in the index")
            elif homes[name] != path:
                problems.append(f"{shown(name)}: in {path.name}, but the index puts it into {homes[name].name}")
    if problems:
        raise CheckpointError(
            f"the index and its shards disagree: {len(problems)} problem{'s' if len(problems) > 1 else ''}",
            where=str(index),
            got="".join(f"\n    {problem}" for problem in problems),
            expected="each tensor in the one shard that the index names",
            fix="fetch the folder again: its files are not of one checkpoint",
        )


# ------------------------------------------------------------------------------------------------------------- JSON


def read_json(path: Path, limit: int = JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file, strictly: UTF-8, each key once, only finite numbers, within a size and a depth."""
    return parsed(read_bytes(path, limit), path)


def read_bytes(path: Path, limit: int = TEXT_BYTES) -> bytes:
    """A whole file, if it is not larger than it should be."""
    try:
        with open_regular(path) as file:
            raw: bytes = file.read(limit + 1)
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror}")
    if len(raw) > limit:
        refuse(path, f"the file has more than {limit} bytes")
    return raw


def parsed(raw: bytes, path: Path) -> dict[str, Any]:
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > JSON_VALUES:
        refuse(path, f"the JSON has more than {JSON_VALUES} values")
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=no_constant, parse_float=finite)
        if b"\\u" in raw:  # half of a surrogate pair is no text, and could not be written again
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        refuse(path, "the JSON is not valid UTF-8 text")
    except RecursionError:
        refuse(path, f"the JSON is nested deeper than {JSON_DEPTH} levels")
    except ValueError as error:
        refuse(path, f"the JSON is not valid: {error}")
    if not isinstance(value, dict):
        refuse(path, "the JSON is not an object", expected="a text that begins with '{'")
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH):
        level = [y for x in level for y in (x.values() if isinstance(x, dict) else x if isinstance(x, list) else ())]
    if level:
        refuse(path, f"the JSON is nested deeper than {JSON_DEPTH} levels")
    return value


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"the key {shown(name)} stands twice")
        table[name] = value
    return table


def no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON file: insertion order, two spaces, a final newline. NaN and infinity have no JSON form."""
    try:
        return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"this cannot be written as JSON: {error}", expected="finite numbers, texts, lists, tables"
        ) from None


# ---------------------------------------------------------------------------------------------------------- writing


def save(folder: Path, files: Mapping[str, bytes | Mapping[str, Tensor]], replace: bool = False) -> None:
    """Write a folder whole or not at all: tables of tensors as safetensors, bytes as they are.

    All is written and synced in a hidden sibling, which then takes the folder's place in one step. A folder that has
    files is refused unless ``replace``, and then only if each of them is written anew, so that no other file is lost.
    """
    folder = Path(folder).resolve()
    if bad := [name for name in files if not plain(name)]:
        raise InputError(f"{shown(bad[0])} is not a plain file name", where=str(folder))
    content = {name: x if isinstance(x, bytes) else ready(x, folder / name) for name, x in files.items()}
    total = sum(len(x) if isinstance(x, bytes) else sum(t.nbytes for t in x.values()) for x in content.values())
    occupied = check_target(folder, set(files), replace)
    hidden = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        fresh = hidden / "new"
        fresh.mkdir()  # unlike mkdtemp, with the permissions that the user's umask gives
        for name, value in content.items():
            write(fresh / name, value)
        sync(fresh)
        if occupied:
            exchange(fresh, folder)
        else:
            os.replace(fresh, folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            "the folder could not be written, and what was there before is untouched",
            where=str(folder),
            got=error.strerror if isinstance(error, OSError) and error.strerror else str(error),
            expected=f"a place that can be written to, with {total} bytes free",
            fix="free some space or choose another folder, then save again",
        ) from error
    finally:
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)
    with suppress(OSError):  # the new folder is in place; a failure here only delays its being on disk
        sync(folder.parent)


def check_target(folder: Path, names: set[str], replace: bool) -> bool:
    """Whether the folder has files to be replaced. It never holds one that would be lost."""
    try:
        present = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        refuse(folder, f"the folder cannot be written to: {error.strerror}")
    if present and not replace:
        refuse(folder, "the folder exists and is not empty", got=listed(present), fix="choose another folder")
    if lost := [name for name in present if name not in names or not (folder / name).is_file()]:
        refuse(folder, "replacing the folder would lose files", got=listed(lost), fix="choose another folder")
    return bool(present)


def ready(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Dense tensors on the CPU, none sharing memory with another: the format stores each name by itself."""
    found: dict[str, Tensor] = {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        if tensor.is_meta or tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
            raise InputError(
                f"tensor {shown(name)} cannot be stored", where=str(path), got=f"{tensor.dtype}, {tensor.device}"
            )
        if not name or name == "__metadata__":
            raise InputError(f"{shown(name)} cannot be a tensor's name", where=str(path))
        # Conjugation and negation are lazy bits that a plain copy of memory would miss.
        x = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        if x.nbytes and x.untyped_storage().data_ptr() in memory:
            x = x.clone()
        memory.add(x.untyped_storage().data_ptr())
        found[name] = x
    return found


def write(path: Path, value: bytes | dict[str, Tensor]) -> None:
    with open(path, "xb") as file:
        if isinstance(value, bytes):
            file.write(value)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if not isinstance(value, bytes):
        save_file(value, path, metadata={"format": "pt"})  # other libraries ask for this mark
        os.chmod(path, mode)  # it may have put a private temporary file in place of ours
    sync(path)


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, two: Path) -> None:
    """Swap two folders in one step. Two renames would leave nothing in place if the machine stopped between them."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        raise OSError(0, "this system cannot replace a folder in one step: remove it first")
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(one), here, os.fsencode(two), swap) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the folder could not be replaced in one step ({os.strerror(code)}): remove it first")


# ----------------------------------------------------------------------------------------------------------- shared


def open_regular(path: Path) -> Any:
    """Open for reading, but never a pipe or a device, which could block or never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        refuse(path, "is not a regular file")
    return open(path, "rb")


def plain(name: str) -> bool:
    """Whether a name is one file in one folder, on any system."""
    return bool(name) and name not in (".", "..") and not any(x in name for x in "/\\:\0") and name.isprintable()


def whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def shown(name: object) -> str:
    """A foreign name, safe to print: in quotes, escaped, and not longer than a line."""
    return ascii(name[:200] if isinstance(name, str) else type(name).__name__)


def listed(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(shown, names[:10])) + more


def refuse(path: Path, reason: str, *, got: str = "", expected: str = "", fix: str = "") -> NoReturn:
    raise CheckpointError(f"{path.name}: {reason}", where=str(path), got=got, expected=expected, fix=fix) from None
