"""Where the elements of PyTorch's tensors stand: in entries of a zip, or in older files behind the programs.

An older file (before PyTorch 1.6) is five programs, one after the other: a number that marks the format, its version,
what machine wrote it, the state dict, and the names of the storages; then the storages in that order.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from regard.errors import CheckpointError
from regard.storage.untrusted import quote_name, refuse_file

from .opcodes import DAMAGE, View, interpret_next

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
MOST_STORAGES = 200_000  # storages that no honest file has


class Storages(Protocol):
    """Sizes in bytes by key, and the bytes."""

    def size(self, key: str) -> int | None: ...
    def read(self, key: str) -> bytes: ...


@dataclass(frozen=True)
class ZippedStorages:
    archive: zipfile.ZipFile
    entries: Mapping[str, zipfile.ZipInfo]
    folder: str
    source: Path

    def size(self, key: str) -> int | None:
        entry = self.entries.get(f"{self.folder}/data/{key}")
        return None if entry is None else entry.file_size

    def read(self, key: str) -> bytes:
        return content(self.archive, self.entries[f"{self.folder}/data/{key}"], self.source)


@dataclass(frozen=True)
class StreamedStorages:
    file: BinaryIO
    places: Mapping[str, tuple[int, int]]  # start and size
    source: Path

    def size(self, key: str) -> int | None:
        place = self.places.get(key)
        return None if place is None else place[1]

    def read(self, key: str) -> bytes:
        start, size = self.places[key]
        self.file.seek(start)
        data = self.file.read(size)
        if len(data) != size:
            refuse_file(self.source, f"the storage {quote_name(key)} is truncated")
        return data


def content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: Path) -> bytes:
    """One entry, its checksum verified by the zip reader."""
    try:
        data = archive.read(entry)
    except (*DAMAGE, OSError) as error:
        refuse_file(source, f"the zip entry {quote_name(entry.filename)} is corrupt: {ascii(str(error))[1:-1][:200]}")
    if len(data) != entry.file_size:
        refuse_file(source, f"the zip entry {quote_name(entry.filename)} is truncated")
    return data


def read_stream(file: BinaryIO, size: int, most: int, source: Path) -> tuple[object, StreamedStorages]:
    """The value of an older file, and its storages; ``most`` bytes of it may be programs."""
    file.seek(0)
    head = io.BytesIO(file.read(min(size, most)))
    try:
        magic, version, machine, value, keys = (interpret_next(head, source) for _ in range(5))
    except CheckpointError as error:
        if head.tell() >= most:
            refuse_file(source, f"the programs take more than {most} bytes, the limit")
        raise error
    if magic != MAGIC or version != VERSION:
        refuse_file(source, "not a PyTorch file", expected="what torch.save writes")
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        refuse_file(source, "the numbers are stored in big-endian order, which is not supported")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or len(keys) > MOST_STORAGES:
        refuse_file(source, f"the names of the storages are not a list of at most {MOST_STORAGES} texts")
    if len(set(keys)) != len(keys):
        refuse_file(source, "a storage is named twice")
    return value, StreamedStorages(file, places_of(file, head.tell(), size, keys, value, source), source)


def places_of(
    file: BinaryIO, start: int, size: int, keys: list[Any], value: object, source: Path
) -> dict[str, tuple[int, int]]:
    """Start and size of each storage: a count of elements stands before each, whose size the tensors tell."""
    kinds = {view.storage.key: view.storage.kind.size for view in views_in(value)}
    places: dict[str, tuple[int, int]] = {}
    for key in keys:
        file.seek(start)
        raw = file.read(8)
        if len(raw) < 8:
            refuse_file(source, f"the storage {quote_name(key)} is missing")
        if key not in kinds:
            refuse_file(source, f"no tensor refers to the storage {quote_name(key)}, so its size is unknown")
        length = int.from_bytes(raw, "little") * kinds[key]
        if start + 8 + length > size:
            refuse_file(source, f"the storage {quote_name(key)} claims {length} bytes, but the file ends before")
        places[key] = (start + 8, length)
        start += 8 + length
    if start != size:
        refuse_file(source, f"the file has {size - start} bytes after its last storage")
    return places


def views_in(value: object) -> list[View]:
    """All tensors in a value, however deep, each value once."""
    found, open_values, seen = list[View](), [value], set[int]()
    while open_values:
        one = open_values.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, View):
            found.append(one)
        elif isinstance(one, dict):
            open_values += one.values()
        elif isinstance(one, list | tuple):
            open_values += one
    return found
