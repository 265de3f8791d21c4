"""Packed files (.gz, .xz) as plain ones that can be read at any place: each is unpacked once, into the cache."""

import fcntl
import gzip
import hashlib
import lzma
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from regard.errors import InputError

CHUNK = 1 << 20
STALE = 3600.0  # seconds: a part that nobody has written to for so long was left by a process that was killed
OPENERS = cast(dict[str, Callable[[Path], BinaryIO]], {".gz": gzip.open, ".xz": lzma.open})


def unpacked_file(path: Path) -> Path:
    """The plain file of a packed one; any other file is itself. One that has changed is unpacked anew."""
    path = Path(path)
    try:
        about = os.stat(path)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read", where=str(path), got=error.strerror or str(error)) from None
    if not stat.S_ISREG(about.st_mode):
        raise InputError(
            f"{path.name or path} is not a regular file", where=str(path), fix="give the path of a regular file"
        )
    if path.suffix.lower() not in OPENERS:
        return path
    return derived_file(path, "", path.stem, lambda: chunks(path))


def derived_file(path: Path, how: str, name: str, pieces: Callable[[], Iterator[bytes]]) -> Path:
    """What is made of a file, piece by piece, as a file in the cache; it is made once, and anew when its source has
    changed. ``how`` tells apart what is made of one source."""
    about = os.stat(path)
    identity = f"{os.path.abspath(path)}\0{about.st_size}\0{about.st_mtime_ns}" + (f"\0{how}" if how else "")
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:32]
    folder = cache_folder() / "unpacked"
    target = folder / f"{key}-{name}"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with exclusive_lock(folder / f".{key}.lock"):
            if not target.exists():  # another process may have done it while this one waited
                unpack_into(pieces, target, about)
    except OSError as error:
        raise full(folder, 0, error) from None
    return target


def cache_folder() -> Path:
    """$REGARD_CACHE, or regard's folder in the user's cache."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own).absolute()
    if os.path.isabs(home := os.environ.get("XDG_CACHE_HOME", "")):  # the standard says: ignore a relative one
        return Path(home) / "regard"
    try:
        return Path.home() / ".cache" / "regard"
    except RuntimeError:
        raise InputError("the home folder for the cache is unknown", fix="set REGARD_CACHE to a folder") from None


def unpack_into(pieces: Callable[[], Iterator[bytes]], target: Path, about: os.stat_result) -> None:
    """Whole or not at all: the target takes its name only when all of it is on disk."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    written = 0
    try:
        with open(handle, "wb") as part:
            for chunk in pieces():
                part.write(chunk)
                written += len(chunk)
            part.flush()
            # The time of its source: whoever wrote it, the file looks the same to those who have it open.
            os.utime(part.fileno(), ns=(about.st_mtime_ns, about.st_mtime_ns))
            os.fsync(part.fileno())
        os.replace(name, target)
    except OSError as error:
        raise full(target, written, error) from None
    finally:
        with suppress(FileNotFoundError):  # it has its name, and all is well
            os.unlink(name)
    with suppress(OSError):  # the file is in place; a failure here only delays its being on disk
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def chunks(path: Path) -> Iterator[bytes]:
    """What the archive holds. What is wrong with the archive itself is an error that names it."""
    try:
        if not path.stat().st_size:
            raise EOFError("the file is empty")
        with OPENERS[path.suffix.lower()](path) as file:
            while chunk := file.read(CHUNK):
                yield chunk
        with open(path, "rb") as raw:
            raw.seek(-2, os.SEEK_END)
            if path.suffix.lower() == ".xz" and raw.read() != b"YZ":  # Python's reader passes over a bad end
                raise EOFError("the .xz footer is invalid")
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:  # gzip's own error is an OSError
        raise InputError(
            f"{path.name} cannot be decompressed: the file is corrupt or truncated",
            where=str(path),
            got=str(error),
            expected=f"a complete {path.suffix} file",
            fix="download or compress the file again",
        ) from None


def full(place: Path, written: int, error: OSError) -> InputError:
    return InputError(
        "the file could not be decompressed into the cache; the partial output was removed",
        where=str(place),
        got=f"{error.strerror or error}, after {written} bytes were written",
        expected="a writable folder with enough free space for the decompressed file",
        fix="free disk space, or set REGARD_CACHE to another folder",
    )


@contextmanager
def exclusive_lock(lock: Path) -> Iterator[None]:
    """One process at a time. It only saves work: without it each would write its own part, and no harm come of it."""
    with open(lock, "wb") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - max(part.stat().st_mtime, part.stat().st_ctime) > STALE:
                part.unlink()
