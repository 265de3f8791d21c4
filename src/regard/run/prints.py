"""Whether a run's data is still what it was when the run began.

On other rows it would be another run, and rows that are held out now might be among those that it has learned from.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.data.captioned import image_names
from regard.data.pixels import PassingError
from regard.data.places import Place
from regard.errors import InputError
from regard.interop.texts import json_bytes, read_json

from .imagery import targets_of
from .inputs import CaptionFiles
from .sources import caption_tables

FILE, RUN = "data.json", "run.toml"
WHOLE = 1 << 28  # bytes of a file that are all read; of a larger one, pieces
PIECES, PIECE = 256, 1 << 20
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def prints_of(run: Any) -> Iterator[tuple[str, str]]:
    """Of each file its path, and its size and a digest; of a folder, of all that is in it; of a teacher too. Of images
    with captions, of those that have one: in their folder there may be more, such as this run."""
    names: list[str] = []
    for key in ("train", "held_out", "test", "images"):
        given = getattr(run.data, key, ())
        names += [given] if isinstance(given, str) and given else list(given) if isinstance(given, tuple) else []
        if getattr(run.data, "tile", 0) and given and targets_of(Path(given)).is_file():
            names.append(str(targets_of(Path(given))))
    if isinstance(run.data, CaptionFiles):
        names = [name for name in names if not Path(name).is_dir()]
    teacher = getattr(run.task, "teacher", "")
    others = [teacher] if run.start is None else [teacher, run.start.model]
    names += [name for name in others if name and Path(name).is_dir()]
    for name in dict.fromkeys(names):
        yield name, print_of(Path(name))
    if isinstance(run.data, CaptionFiles):
        for split, (table, place) in caption_tables(run.data, Path()).items():
            if place.path.is_dir():
                yield f"images of data.{split}", print_of_images(place, sorted(set(image_names(table))))


def print_of(path: Path) -> str:
    if path.is_dir():
        return print_of_folder(path)
    found, size = hashlib.sha256(), path.stat().st_size
    with open(path, "rb") as file:
        if size <= WHOLE:
            return f"{size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
        for i in range(PIECES):
            file.seek((size - PIECE) * i // (PIECES - 1))
            found.update(file.read(PIECE))
    return f"{size} bytes, sha256 of pieces {found.hexdigest()}"


def print_of_folder(path: Path) -> str:
    """Without runs that lie in it, perhaps this very one."""
    files = []
    for folder, inner, names in os.walk(path):
        inner[:] = [one for one in inner if not holds_run(Path(folder, one))]
        files += [(os.path.relpath(os.path.join(folder, one), path), Path(folder, one).stat().st_size) for one in names]
    return print_of_files(path, sorted(files))


def holds_run(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (FILE, RUN))


def print_of_images(place: Place, names: Sequence[str]) -> str:
    """Of those that are there."""
    files = []
    for name in names:
        with suppress(PassingError):
            files.append((name, place.stamp(name).size))
    return print_of_files(place.path, files)


def print_of_files(path: Path, files: Sequence[tuple[str, int]]) -> str:
    """Names, sizes and contents. Of too many bytes, the contents of all that is no image (tables of labels, idx files)
    and of some images, evenly taken."""
    total = sum(size for _, size in files)
    images = [name for name, _ in files if name.lower().endswith(IMAGES)]
    left_out = set(images) - set(images[:: max(len(images) // PIECES, 1)]) if total > WHOLE else set()
    found = hashlib.sha256()
    for name, size in files:
        content = "" if name in left_out else print_of(path / name)
        found.update(f"{name}\0{size}\0{content}\0".encode("utf-8", "replace"))
    return f"{total} bytes, sha256 {'of pieces ' if left_out else ''}{found.hexdigest()}"


def prints_bytes(run: Any) -> bytes:
    return json_bytes(dict(prints_of(run)))


def check_prints(folder: Path, run: Any) -> None:
    """Refuse what has changed; a run of an earlier version has nothing to compare with."""
    path = folder / FILE
    if not path.is_file():
        return
    before: Mapping[str, Any] = read_json(path)
    for name, now in prints_of(run):
        if before.get(name, now) != now:
            raise InputError(
                "the data has changed since this run began",
                where=name,
                got=now,
                expected=str(before[name]),
                fix="put the file back as it was, or start a new run in another folder",
            )
