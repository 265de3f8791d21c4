"""A restricted reader for PyTorch's `.bin` and `.pt` files: programs in a zip, or before version 1.6 in a row.

Such a file holds a small stack program whose opcodes may call anything. Here no such program is ever run: ``opcodes``
reads it, and whatever a state dict does not need is an error that names it. All this happens in a child process with
limits on memory, time and output, which writes a safetensors file; the parent reads that one as it reads any other.
There is no fallback to a reader that trusts more.

The child needs neither torch nor a GPU, so it starts fast and its memory limit can be tight.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from regard.errors import CheckpointError
from regard.storage.untrusted import list_names, quote_name, refuse_file

from .opcodes import DAMAGE, View, interpret
from .storages import Storages, ZippedStorages, content, read_stream

if TYPE_CHECKING:
    from torch import Tensor

MIB = 2**20
PROGRAM_BYTES = 16 * MIB  # a program of 10,000 tensors takes about 2
ENTRIES = 200_000
AXES = 32  # numpy's limit before version 2
SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")


# The parent's side.


def read_pickled(path: Path) -> "dict[str, Tensor]":
    """Read the tensors of a `.bin` or `.pt` file, of an index and its shards, or of a folder with one of these."""
    from regard.storage import tensors  # it needs torch, which the child must not

    path = Path(path)
    if path.is_dir():
        path = pickled_in(path)
    if not path.name.endswith(".index.json"):
        return read_one(path)
    homes = tensors.shards(path, ".bin")
    parts = {shard: read_one(shard) for shard in dict.fromkeys(homes.values())}
    tensors.agree(path, homes, {shard: list(part) for shard, part in parts.items()})
    return {name: parts[shard][name] for name, shard in homes.items()}


def pickled_in(folder: Path) -> Path:
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        refuse_file(folder, f"the folder cannot be read: {error.strerror}")
    for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"):
        if name in names:
            return folder / name
    found = [name for name in names if name.endswith(SUFFIXES)]
    if len(found) == 1:
        return folder / found[0]
    raise CheckpointError(
        "the folder has several files that could contain the weights" if found else "no PyTorch weights in this folder",
        where=str(folder),
        got=list_names(found),
        expected="pytorch_model.bin, or pytorch_model.bin.index.json with its shards, or one .bin or .pt file",
        fix="pass the path of the file",
    )


def read_one(path: Path) -> "dict[str, Tensor]":
    """One file, through the child process."""
    from regard.storage import tensors
    from regard.storage.documents import read_json

    if not path.is_file():
        refuse_file(path, "not found, or not a regular file")
    seconds = seconds_for(path.stat().st_size)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        target, report = Path(folder) / "out.safetensors", Path(folder) / "report.json"
        # -P and an empty working folder: a module lying beside a downloaded file must not be imported.
        command = [sys.executable, "-P", "-m", "regard.interop.pickled", str(path.resolve()), str(target), str(report)]
        root = str(Path(__file__).resolve().parents[2])
        ways = os.pathsep.join(x for x in (root, os.environ.get("PYTHONPATH", "")) if x)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        quiet = subprocess.DEVNULL  # what it prints could quote the file, so it is never passed on
        try:
            code = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": ways, **threads},
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                timeout=2 * seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            refuse_file(path, f"reading took longer than {2 * seconds} seconds and was stopped")
        except OSError as error:
            refuse_file(path, f"the reading process could not be started: {error.strerror}")
        if report.exists():
            parts = {name: str(text) for name, text in read_json(report).items()}
            raise CheckpointError(
                parts.get("what", "cannot be read"),
                where=str(path),
                got=parts.get("got", ""),
                expected=parts.get("expected", ""),
                fix=parts.get("fix", ""),
            )
        if code != 0 or not target.exists():
            refuse_file(path, f"the reading process exited with code {code}, at its memory or time limit")
        # Copies, since what was read is mapped from a file that now goes.
        return {name: tensor.clone() for name, tensor in tensors.weights_in(target).read().items()}


# The child's side.


def main(arguments: list[str]) -> int:
    """Rewrite one file, or leave a report of why not. Nothing is printed."""
    source, target, report = map(Path, arguments)
    try:
        confine(source.stat().st_size)
        rewrite(source, target)
        return 0
    except CheckpointError as error:
        parts = error.as_dict()
    except MemoryError:
        parts = {"what": f"{source.name}: reading needs more memory than expected for a file of this size"}
    except OSError as error:
        parts = {"what": f"{source.name}: cannot be read: {error.strerror}"}
    parts.pop("where", None)  # the parent knows the path, and a path need not be text
    report.write_text(json.dumps({name: text.encode("utf-8", "replace").decode() for name, text in parts.items()}))
    return 1


def confine(size: int) -> None:
    """Limits by the operating system, should a check below be wrong: memory, time, output, no core file."""
    if sys.platform == "win32":
        return
    import resource

    seconds = seconds_for(size)
    for kind, most in (
        (resource.RLIMIT_AS, 2048 * MIB + 6 * size),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, output_limit(size) + PROGRAM_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(OSError, ValueError):  # some systems name a limit that they do not take
            resource.setrlimit(kind, (allowed, allowed))


def seconds_for(size: int) -> int:
    return 60 + size // (20 * MIB)


def output_limit(size: int) -> int:
    """Tied tensors are one in the file and several in the result (four in T5), but not without end."""
    return 4 * size + 64 * MIB


def rewrite(source: Path, target: Path) -> None:
    """Read a PyTorch file and write the same tensors as safetensors, all sizes checked before anything is allocated."""
    if not source.is_file():
        refuse_file(source, "not found, or not a regular file")
    size = source.stat().st_size
    with open(source, "rb") as file:
        first = file.read(4)
        try:
            if first == b"PK\x03\x04":
                with zipfile.ZipFile(file) as archive:
                    write_checked(*read_zip(archive, size, source), size, source, target)
            elif first[:1] == b"\x80":
                write_checked(*read_stream(file, size, PROGRAM_BYTES, source), size, source, target)
            else:
                refuse_file(source, "not a PyTorch file", expected="what torch.save writes")
        except CheckpointError:
            raise
        except (*DAMAGE, OSError) as error:
            refuse_file(source, f"the zip archive is corrupt: {ascii(str(error))[1:-1][:200]}")


def read_zip(archive: zipfile.ZipFile, size: int, source: Path) -> tuple[object, ZippedStorages]:
    entries = checked_entries(archive, size, source)
    folder = folder_of(entries, source)
    order = entries.get(f"{folder}/byteorder")
    if order is not None and content(archive, order, source) != b"little":
        refuse_file(source, "the numbers are stored in big-endian order, which is not supported")
    program = content(archive, entries[f"{folder}/data.pkl"], source)
    return interpret(program, source), ZippedStorages(archive, entries, folder, source)


def write_checked(value: object, storages: Storages, size: int, source: Path, target: Path) -> None:
    views = tensors_of(value, source)
    for name, view in views.items():
        check_view(name, view, storages.size(view.storage.key), source)
    if (total := sum(view.size for view in views.values())) > output_limit(size):
        refuse_file(source, f"the tensors need {total} bytes, far more than the file size of {size}")
    try:
        with open(target, "xb") as out:
            write_tensors(out, storages, views)
    except OSError as error:
        free = f"{total} bytes free in {target.parent}"
        refuse_file(source, f"the tensors could not be written: {error.strerror}", expected=free)


def checked_entries(archive: zipfile.ZipFile, size: int, source: Path) -> dict[str, zipfile.ZipInfo]:
    """The entries by name. Only stored ones, so that all of them together are no larger than the file."""
    entries: dict[str, zipfile.ZipInfo] = {}
    if len(archive.filelist) > ENTRIES:
        refuse_file(source, f"the zip archive has {len(archive.filelist)} entries, more than the limit of {ENTRIES}")
    for entry in archive.filelist:
        name = quote_name(entry.filename)
        if entry.filename in entries:
            refuse_file(source, f"duplicate zip entry {name}")
        if entry.flag_bits & 1:
            refuse_file(source, f"the zip entry {name} is encrypted")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            refuse_file(
                source, f"the zip entry {name} is compressed", expected="uncompressed entries, as torch.save writes"
            )
        entries[entry.filename] = entry
    if (total := sum(entry.file_size for entry in entries.values())) > size:
        refuse_file(source, f"the zip entries declare {total} bytes, but the file has {size}")
    return entries


def folder_of(entries: dict[str, zipfile.ZipInfo], source: Path) -> str:
    found = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(found) != 1:
        refuse_file(
            source, f"the zip archive has {len(found)} entries */data.pkl", expected="exactly one, as torch.save writes"
        )
    folder = found[0].removesuffix("/data.pkl")
    if f"{folder}/constants.pkl" in entries:
        refuse_file(source, "a TorchScript program, not a state dict")
    if entries[found[0]].file_size > PROGRAM_BYTES:
        refuse_file(source, f"data.pkl has {entries[found[0]].file_size} bytes, more than the limit of {PROGRAM_BYTES}")
    return folder


def check_view(name: str, view: View, size: int | None, source: Path) -> None:
    """Every number of a tensor against its storage, and the storage against its size in the file."""
    what, storage = f"tensor {quote_name(name)}", view.storage
    if size is None:
        refuse_file(source, f"{what} refers to the storage {quote_name(storage.key)}, which is missing in the file")
    if size != storage.count * storage.kind.size:
        need = storage.count * storage.kind.size
        refuse_file(source, f"{what} needs {need} bytes in the storage {quote_name(storage.key)}, which has {size}")
    if len(view.shape) != len(view.stride) or len(view.shape) > AXES:
        refuse_file(source, f"{what} has {len(view.shape)} dimensions and {len(view.stride)} strides")
    if prod(x for x in view.shape if x) >= 2**62:
        refuse_file(source, f"{what} has the invalid shape {view.shape}")
    last = view.offset + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True))
    if prod(view.shape) and last >= storage.count:
        refuse_file(source, f"{what} reads element {last} of a storage of {storage.count} elements")


def write_tensors(out: BinaryIO, storages: Storages, views: dict[str, View]) -> None:
    """Header, then data, one storage in memory at a time. Wide types first, which keeps every tensor aligned."""
    order = sorted(views, key=lambda name: (-views[name].storage.kind.size, views[name].storage.key, name))
    header: dict[str, Any] = {}
    reached = 0
    for name in order:
        view = views[name]
        offsets = [reached, reached + view.size]
        header[name] = {"dtype": view.storage.kind.name, "shape": view.shape, "data_offsets": offsets}
        reached = offsets[1]
    raw = json.dumps(header, ensure_ascii=False).encode("utf-8")
    raw += b" " * (-len(raw) % 8)
    out.write(len(raw).to_bytes(8, "little") + raw)
    key, data = "", b""
    for name in order:
        view = views[name]
        if not view.size:
            continue
        if view.storage.key != key or not data:
            key, data = view.storage.key, storages.read(view.storage.key)
        out.write(gather(data, view))


def gather(data: bytes, view: View) -> bytes:
    """The elements of a view, row by row. Elements are opaque: no number is converted on the way."""
    size = view.storage.kind.size
    # The stride of an axis of one is free, and may be too large for numpy.
    steps = tuple(step * size if length > 1 else 0 for length, step in zip(view.shape, view.stride, strict=True))
    return np.ndarray(view.shape, dtype=f"V{size}", buffer=data, offset=view.offset * size, strides=steps).tobytes()


def tensors_of(top: object, source: Path) -> dict[str, View]:
    """The state dict: the top itself, or the only dict of tensors under "state_dict" or "model"."""
    if not isinstance(top, dict):
        refuse_file(source, f"contains a {type(top).__name__}, not a state dict")
    if all_tensors(top):
        return named(top, source)
    if len(inner := [key for key in ("state_dict", "model") if all_tensors(top.get(key))]) == 1:
        return named(top[inner[0]], source)
    raise CheckpointError(
        f"{source.name}: not a state dict, and it has {'two' if inner else 'none'} under 'state_dict' or 'model'",
        where=str(source),
        got=", ".join(f"{quote_name(key)}: {described(value)}" for key, value in list(top.items())[:100]) or "no keys",
        expected="a dict of tensors by name",
        fix="save only the state dict, preferably as safetensors",
    )


def all_tensors(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(x, View) for x in value.values())


def named(state: dict[Any, View], source: Path) -> dict[str, View]:
    for name in state:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 1000 or name == "__metadata__":
            refuse_file(source, f"{quote_name(name)} is not a valid tensor name")
    return state


def described(value: object) -> str:
    if isinstance(value, dict):
        return f"a dict of {len(value)} entries"
    return "a tensor" if isinstance(value, View) else type(value).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
