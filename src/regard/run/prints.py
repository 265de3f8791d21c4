"""Whether a run's data is still what it was when the run began.

On other rows it would be another run, and rows that are held out now might be among those that it has learned from.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.interop.texts import json_bytes, read_json

FILE = "data.json"
WHOLE = 1 << 28  # bytes of a file that are all read; of a larger one, pieces
PIECES, PIECE = 256, 1 << 20


def prints_of(data: Any) -> dict[str, str]:
    """The size and a digest of each file, by its path; of a folder, of the names and sizes within."""
    names: list[str] = []
    for key in ("train", "held_out", "test"):
        given = getattr(data, key, ())
        names += [given] if isinstance(given, str) and given else list(given) if isinstance(given, tuple) else []
    return {name: print_of(Path(name)) for name in dict.fromkeys(names)}


def print_of(path: Path) -> str:
    found = hashlib.sha256()
    if path.is_dir():
        total = 0
        for folder, inner, files in os.walk(path):
            inner.sort()
            for name in sorted(files):
                size = os.stat(os.path.join(folder, name)).st_size
                total += size
                found.update(
                    f"{os.path.relpath(os.path.join(folder, name), path)}\0{size}\0".encode("utf-8", "replace")
                )
        return f"{total} bytes, sha256 {found.hexdigest()}"
    size = path.stat().st_size
    with open(path, "rb") as file:
        if size <= WHOLE:
            return f"{size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
        for i in range(PIECES):
            file.seek((size - PIECE) * i // (PIECES - 1))
            found.update(file.read(PIECE))
    return f"{size} bytes, sha256 of pieces {found.hexdigest()}"


def prints_bytes(data: Any) -> bytes:
    return json_bytes(prints_of(data))


def check_prints(folder: Path, data: Any) -> None:
    """Refuse what has changed; a run of an earlier version has nothing to compare with."""
    path = folder / FILE
    if not path.is_file():
        return
    before: Mapping[str, Any] = read_json(path)
    for name, now in prints_of(data).items():
        if before.get(name, now) != now:
            raise InputError(
                "the data has changed since this run began",
                where=name,
                got=now,
                expected=str(before[name]),
                fix="put the file back as it was, or start a new run in another folder",
            )
