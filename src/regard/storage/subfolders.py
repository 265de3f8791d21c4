"""A folder of folders, written whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.errors import InputError

from .atomic import atomic_folder, check_target, storable_tensors, sync_to_disk, write_file
from .untrusted import is_plain_name, quote_name

Files = Mapping[str, bytes | Mapping[str, Tensor]]


def save_subfolders(folder: Path, files: Files, parts: Mapping[str, Files]) -> None:
    """Tables of tensors as safetensors, bytes as they are. A folder that has files is refused."""
    folder = Path(folder).resolve()
    if bad := [name for table in (files, parts, *parts.values()) for name in table if not is_plain_name(name)]:
        raise InputError(f"{quote_name(bad[0])} is not a plain file name", where=str(folder))
    content = {
        place / name: x if isinstance(x, bytes) else storable_tensors(x, folder / place / name)
        for place, table in ((Path(), files), *((Path(name), part) for name, part in parts.items()))
        for name, x in table.items()
    }
    total = sum(len(x) if isinstance(x, bytes) else sum(t.nbytes for t in x.values()) for x in content.values())
    occupied = check_target(folder, {*files}, False)
    with atomic_folder(folder, total, occupied) as fresh:
        for name in parts:
            (fresh / name).mkdir()
        for path, value in content.items():
            write_file(fresh / path, value)
        for name in parts:
            sync_to_disk(fresh / name)
