"""Every image is decoded once before the first step, by several threads. What was found is remembered in the cache, so
that the next start only looks whether files have changed."""

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import PIL

from regard.data.archives import cache_folder, exclusive_lock
from regard.data.faults import DamagedError, TransientError
from regard.data.locations import DataPlace, FileStamp
from regard.errors import InputError

from .pixels import FORMATS, PIXELS, load_image, told_pixels, upright_size

GROUP = 1024  # images that are checked before what was found is written down
UNKNOWN = -1  # the size of an image that could not be read, which is not remembered
THREADS = 8  # at most
TERMS = {"checks": 1, "pillow": PIL.__version__, "formats": list(FORMATS), "pixels": PIXELS}  # on which a finding rests


class ImageCheck(NamedTuple):
    width: int
    height: int
    reason: str  # why it cannot be used; "" where it can


def check_images(place: DataPlace, names: Sequence[str]) -> list[ImageCheck]:
    """What is known of each image, which is decoded unless that is remembered."""
    with ExitStack() as stack:
        path = memory_of(place)
        with suppress(OSError):
            if path is not None:  # many processes may start at once: the first looks, the others then know
                stack.enter_context(exclusive_lock(path.with_suffix(".lock")))
        memory = CheckCache(path)
        pool = stack.enter_context(ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)))
        return [finding for some in groups(names) for finding in check_group(place, some, memory, pool)]


class Room:
    """Pixels that may be decoded at a time: many small images, or one of the largest, by however many threads."""

    def __init__(self, pixels: int = PIXELS) -> None:
        self.whole = self.free = pixels
        self.changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        needed = min(pixels, self.whole)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= needed)
            self.free -= needed
        try:
            yield
        finally:
            with self.changed:
                self.free += needed
                self.changed.notify_all()


ROOM = Room()  # of this process


def memory_of(place: DataPlace) -> Path | None:
    """Where what was found is written down; without a cache all goes on, only slower."""
    try:
        key = hashlib.sha256(os.fsencode(os.path.abspath(place.path))).hexdigest()[:32]
        path = cache_folder() / "images" / f"{key}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, InputError):
        return None
    return path


def groups(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[i : i + GROUP] for i in range(0, len(names), GROUP))


def check_group(
    place: DataPlace, names: Sequence[str], memory: "CheckCache", pool: ThreadPoolExecutor
) -> list[ImageCheck]:
    found: list[ImageCheck | None] = []
    stamps: list[FileStamp] = []
    for name in names:
        try:
            stamps.append(place.stamp(name))
            found.append(memory.known.get((name, stamps[-1])))
        except TransientError as reason:
            stamps.append(FileStamp(0, 0))
            found.append(ImageCheck(UNKNOWN, UNKNOWN, str(reason)))
    new = [i for i, finding in enumerate(found) if finding is None]
    fresh = dict(zip(new, pool.map(lambda i: look(place, names[i]), new), strict=True))
    memory.add({(names[i], stamps[i]): finding for i, finding in fresh.items() if finding.width != UNKNOWN})
    return [finding or fresh[i] for i, finding in enumerate(found)]


def look(place: DataPlace, name: str) -> ImageCheck:
    try:
        raw = place.read(name)
        with ROOM.taken(told_pixels(raw)):
            width, height = measured(raw)
    except TransientError as reason:
        return ImageCheck(UNKNOWN, UNKNOWN, str(reason))
    except DamagedError as reason:
        return ImageCheck(0, 0, str(reason))
    return ImageCheck(width, height, "")


def measured(raw: bytes) -> tuple[int, int]:
    """Width and height of an image that is read to its end."""
    return upright_size(load_image(raw))


class CheckCache:
    """A file of JSON lines that only ever grows. A line that was cut off or makes no sense is as if not there."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[tuple[str, FileStamp], ImageCheck] = {}
        if path is not None:
            with suppress(OSError):
                self.read(path)

    def read(self, path: Path) -> None:
        lines = path.read_text("ascii", "replace").split("\n") if path.exists() else []
        if not lines or lines[0] != json.dumps(TERMS):
            self.begin(path)
            return
        for line in lines[1:]:
            with suppress(ValueError, TypeError, RecursionError):
                name, size, mark, width, height, reason = json.loads(line)
                if all(type(x) is int for x in (size, mark, width, height)) and isinstance(name + reason, str):
                    self.known[name, FileStamp(size, mark)] = ImageCheck(width, height, reason)

    def begin(self, path: Path) -> None:
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(TERMS) + "\n")
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise

    def add(self, found: dict[tuple[str, FileStamp], ImageCheck]) -> None:
        """One write for all, at the end of the file whoever else writes there; the first newline ends a torn line."""
        self.known |= found
        if self.path is None or not found:
            return
        text = "".join(f"\n{json.dumps([name, *stamp, *finding])}" for (name, stamp), finding in found.items()) + "\n"
        with suppress(OSError), open(self.path, "ab", buffering=0) as file:
            file.write(text.encode("ascii"))
