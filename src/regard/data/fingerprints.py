"""What tells whether files are still what they were: their sizes, and digests of their contents."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .faults import TransientError
from .locations import DataPlace

WHOLE = 1 << 28  # bytes of a file that are all read; of a larger one, pieces
PIECES, PIECE = 256, 1 << 20
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

Skip = Callable[[Path], bool]  # folders that are left out


def nothing(folder: Path) -> bool:
    return False


def fingerprint(path: Path, skip: Skip = nothing) -> str:
    """Of a file, its size and a digest; of a folder, of all that is in it."""
    if path.is_dir():
        return fingerprint_folder(path, skip)
    found, size = hashlib.sha256(), path.stat().st_size
    with open(path, "rb") as file:
        if size <= WHOLE:
            return f"{size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
        for i in range(PIECES):
            file.seek((size - PIECE) * i // (PIECES - 1))
            found.update(file.read(PIECE))
    return f"{size} bytes, sha256 of pieces {found.hexdigest()}"


def fingerprint_folder(path: Path, skip: Skip) -> str:
    files = []
    for folder, inner, names in os.walk(path):
        inner[:] = [one for one in inner if not skip(Path(folder, one))]
        files += [(os.path.relpath(os.path.join(folder, one), path), Path(folder, one).stat().st_size) for one in names]
    return fingerprint_files(path, sorted(files))


def fingerprint_named(place: DataPlace, names: Sequence[str]) -> str:
    """Of those that are there."""
    files = []
    for name in names:
        with suppress(TransientError):
            files.append((name, place.stamp(name).size))
    return fingerprint_files(place.path, files)


def fingerprint_files(path: Path, files: Sequence[tuple[str, int]]) -> str:
    """Names, sizes and contents. Of too many bytes, the contents of all that is no image (tables of labels, idx files)
    and of some images, evenly taken."""
    total = sum(size for _, size in files)
    images = [name for name, _ in files if name.lower().endswith(IMAGES)]
    left_out = set(images) - set(images[:: max(len(images) // PIECES, 1)]) if total > WHOLE else set()
    found = hashlib.sha256()
    for name, size in files:
        content = "" if name in left_out else fingerprint(path / name)
        found.update(f"{name}\0{size}\0{content}\0".encode("utf-8", "replace"))
    return f"{total} bytes, sha256 {'of pieces ' if left_out else ''}{found.hexdigest()}"
