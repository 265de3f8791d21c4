"""Where many small files lie: a folder, or a zip archive, which is read in place and never unpacked."""

import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from regard.errors import InputError

from .faults import Fault, TransientError, printable

BYTES = 1 << 28  # of a file
CLUTTER = ("__MACOSX", "Thumbs.db", "desktop.ini")  # what systems leave in folders; and all that begins with a dot
HEADER = struct.Struct("<26xHH")  # of a zip entry: how long its name is, and what stands after that
STORED, DEFLATED, ENCRYPTED = 0, 8, 1


class FileStamp(NamedTuple):
    """What changes when a file does."""

    size: int
    mark: int  # the time of its last change, or its checksum


class DataPlace(Protocol):
    path: Path
    faults: list[Fault]  # what ``names`` could not list

    def names(self) -> list[str]:
        """All files, by their paths from here, in order."""

    def stamp(self, name: str) -> FileStamp: ...

    def read(self, name: str) -> bytes: ...


def open_place(path: Path) -> DataPlace:
    path = Path(path)
    if path.is_dir():
        return DataFolder(path)
    if path.is_file() and path.suffix.lower() == ".zip":
        return Archive(path)
    got = "a file" if path.exists() else "nothing"
    raise InputError(
        "image folder or .zip archive not found", where=str(path), got=got, expected="a folder or a .zip file"
    )


class DataFolder:
    """Links are followed, but no folder is read twice: a link to a folder above would never end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []

    def names(self) -> list[str]:
        found: list[str] = []
        seen: set[tuple[int, int]] = set()
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            try:
                about = os.stat(self.path / prefix)
                if (about.st_dev, about.st_ino) in seen:
                    self.leave_out(prefix, "a symbolic link to a folder that was already read")
                    continue
                seen.add((about.st_dev, about.st_ino))
                entries = sorted(entry for entry in os.listdir(self.path / prefix) if not clutter(entry))
            except OSError as error:
                self.leave_out(prefix, f"the folder cannot be read: {error.strerror}")
                continue
            if not entries:
                self.leave_out(prefix, "the folder is empty")
            for entry in entries:
                name = f"{prefix}/{entry}" if prefix else entry
                (waiting if os.path.isdir(self.path / name) else found).append(name)
        return sorted(found)

    def leave_out(self, name: str, reason: str) -> None:
        self.faults.append(Fault(shown_path(self, name), 0, reason))

    def stamp(self, name: str) -> FileStamp:
        try:
            about = os.stat(self.path / safe_member(name))
        except OSError as error:
            raise TransientError(f"cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(about.st_mode):  # a pipe could block for ever, a device never end
            raise TransientError("is not a regular file")
        return FileStamp(about.st_size, about.st_mtime_ns)

    def read(self, name: str) -> bytes:
        check_bytes(self.stamp(name).size)
        try:
            with open(self.path / safe_member(name), "rb") as file:
                return file.read(BYTES)
        except OSError as error:
            raise TransientError(f"cannot be read: {error.strerror}") from None


class Entry(NamedTuple):
    start: int  # of its header
    packed: int
    size: int
    checksum: int
    method: int
    flags: int


class Archive:
    """Each read opens the file anew, so that threads and processes never share a position in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        try:
            with zipfile.ZipFile(path) as file:
                infos = [info for info in file.infolist() if not info.is_dir()]
        except Exception as error:  # a hostile directory raises more than BadZipFile
            raise InputError("the zip archive cannot be read", where=str(path), got=str(error)[:100]) from None
        self.entries: dict[str, Entry] = {}
        for info in infos:
            if leads_out(info.filename):
                self.faults.append(Fault(shown_path(self, info.filename), 0, "the path points outside the archive"))
                continue
            if any(clutter(part) for part in info.filename.split("/")):
                continue
            if info.filename in self.entries:
                self.faults.append(
                    Fault(shown_path(self, info.filename), 0, "the archive has two files with this name")
                )
                continue
            self.entries[info.filename] = Entry(
                info.header_offset, info.compress_size, info.file_size, info.CRC, info.compress_type, info.flag_bits
            )

    def names(self) -> list[str]:
        return sorted(self.entries)

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise TransientError("cannot be read: the archive has no such file")
        return self.entries[name]

    def stamp(self, name: str) -> FileStamp:
        return FileStamp(self.entry(name).size, self.entry(name).checksum)

    def read(self, name: str) -> bytes:
        entry = self.entry(name)
        check_bytes(max(entry.size, entry.packed))
        if entry.flags & ENCRYPTED or entry.method not in (STORED, DEFLATED):
            raise TransientError("the file is encrypted or uses an unsupported compression method")
        try:
            with open(self.path, "rb") as file:
                file.seek(entry.start)
                name_bytes, extra_bytes = HEADER.unpack(file.read(HEADER.size))
                file.seek(name_bytes + extra_bytes, os.SEEK_CUR)
                raw = file.read(entry.packed)
            if entry.method == DEFLATED:
                raw = zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, entry.size + 1)
        except (OSError, ValueError, zlib.error, struct.error) as error:
            raise TransientError(f"cannot be read: {error}") from None
        if len(raw) != entry.size or zlib.crc32(raw) != entry.checksum:
            raise TransientError("the archive is corrupt here: wrong size or checksum")
        return raw


def shown_path(place: DataPlace, name: str) -> str:
    return printable(f"{place.path}/{name}" if name else str(place.path))


def clutter(name: str) -> bool:
    return name.startswith(".") or name in CLUTTER


def leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.parts or path.is_absolute() or ".." in path.parts


def safe_member(name: str) -> str:
    """A path that a data file names, if it cannot lead out of the folder."""
    if leads_out(name):
        raise TransientError("the path points outside the folder")
    try:
        if b"\0" not in os.fsencode(name):
            return name
    except UnicodeEncodeError:
        pass
    raise TransientError("invalid file name")


def check_bytes(size: int) -> None:
    if size > BYTES:
        raise TransientError(f"the file has {size} bytes, more than the limit of {BYTES}")
