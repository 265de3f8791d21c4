"""A folder written whole or not at all."""

import ctypes
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.storage.tensors import DTYPES

from .untrusted import is_plain_name, list_names, quote_name, refuse_file


def save_folder(folder: Path, files: Mapping[str, bytes | Mapping[str, Tensor]], replace: bool = False) -> None:
    """Write a folder whole or not at all: tables of tensors as safetensors, bytes as they are.

    A folder that has files is refused unless ``replace``, and then only if each of them is written anew, so that no
    other file is lost.
    """
    folder = Path(folder).resolve()
    if bad := [name for name in files if not is_plain_name(name)]:
        raise InputError(f"{quote_name(bad[0])} is not a plain file name", where=str(folder))
    content = {name: x if isinstance(x, bytes) else storable_tensors(x, folder / name) for name, x in files.items()}
    total = sum(len(x) if isinstance(x, bytes) else sum(t.nbytes for t in x.values()) for x in content.values())
    occupied = check_target(folder, set(files), replace)
    with atomic_folder(folder, total, occupied) as fresh:
        for name, value in content.items():
            write_file(fresh / name, value)


@contextmanager
def atomic_folder(folder: Path, total: int, occupied: bool = False) -> Iterator[Path]:
    """A hidden sibling to write into, which takes the folder's place in one step, synced; or nothing happens at all."""
    hidden = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        fresh = hidden / "new"
        fresh.mkdir()  # unlike mkdtemp, with the permissions that the user's umask gives
        yield fresh
        sync_to_disk(fresh)
        if occupied:
            exchange(fresh, folder)
        else:
            os.replace(fresh, folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            "the folder could not be written; its previous content is unchanged",
            where=str(folder),
            got=error.strerror if isinstance(error, OSError) and error.strerror else str(error),
            expected=f"a writable location with {total} bytes free",
            fix="free disk space or choose another folder, then try again",
        ) from error
    finally:
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)
    with suppress(OSError):  # the new folder is in place; a failure here only delays its being on disk
        sync_to_disk(folder.parent)


def check_target(folder: Path, names: set[str], replace: bool) -> bool:
    """Whether the folder has files to be replaced. It never holds one that would be lost."""
    try:
        present = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        refuse_file(folder, f"the folder cannot be written to: {error.strerror}")
    if present and not replace:
        refuse_file(folder, "the folder exists and is not empty", got=list_names(present), fix="choose another folder")
    if lost := [name for name in present if name not in names or not (folder / name).is_file()]:
        refuse_file(folder, "replacing the folder would lose files", got=list_names(lost), fix="choose another folder")
    return bool(present)


def storable_tensors(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Dense tensors on the CPU, none sharing memory with another: the format stores each name by itself."""
    found: dict[str, Tensor] = {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        if tensor.is_meta or tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
            raise InputError(
                f"tensor {quote_name(name)} cannot be stored", where=str(path), got=f"{tensor.dtype}, {tensor.device}"
            )
        if not name or name == "__metadata__":
            raise InputError(f"{quote_name(name)} cannot be a tensor's name", where=str(path))
        # Conjugation and negation are lazy bits that a plain copy of memory would miss.
        x = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        if x.nbytes and x.untyped_storage().data_ptr() in memory:
            x = x.clone()
        memory.add(x.untyped_storage().data_ptr())
        found[name] = x
    return found


def write_file(path: Path, value: bytes | dict[str, Tensor]) -> None:
    with open(path, "xb") as file:
        if isinstance(value, bytes):
            file.write(value)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if not isinstance(value, bytes):
        save_file(value, path, metadata={"format": "pt"})  # other libraries ask for this mark
        os.chmod(path, mode)  # it may have put a private temporary file in place of ours
    sync_to_disk(path)


def replace_file(path: Path, raw: bytes) -> None:
    """One file, whole or as it was."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write_file(part, raw)
        os.replace(part, path)
        sync_to_disk(path.parent)
    except OSError as error:
        raise CheckpointError(
            "the file could not be written; its previous content is unchanged",
            where=str(path),
            got=error.strerror or str(error),
            expected=f"a writable location with {len(raw)} bytes free",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, two: Path) -> None:
    """Swap two folders in one step. Two renames would leave nothing in place if the machine stopped between them."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        raise OSError(0, "this system cannot replace a folder atomically: remove it first")
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(one), here, os.fsencode(two), swap) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the folder could not be replaced atomically ({os.strerror(code)}): remove it first")
