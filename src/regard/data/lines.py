"""The lines of a file of any size, by number: only where each begins is held in memory."""

import os
from io import FileIO
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

CHUNK = 1 << 22
MARK = b"\xef\xbb\xbf"  # some editors begin a UTF-8 file with it; it is no text


class Lines:
    """A line ends with a newline, which the last one may lack; it is given without it, and without a CR before it.

    The file is opened when first needed, and read by position (pread), which moves nothing: threads and forked
    processes may share it.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        self.path, self.name = Path(path), name or str(path)
        self.opened: FileIO | None = None
        self.seen: tuple[int, int] | None = None  # size and time of change, when the lines were counted
        self.starts = self.scan()  # (n + 1,): line i lies between i and i + 1

    def __del__(self) -> None:
        if (file := getattr(self, "opened", None)) is not None:
            file.close()

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> bytes:
        if not 0 <= i < len(self):
            raise IndexError(f"line index {i} is out of range: {self.name} has {len(self)} lines")
        return self.block(i, i + 1).removesuffix(b"\n").removesuffix(b"\r")

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "opened": None}  # an open file belongs to its process; others open their own

    def block(self, first: int, last: int) -> bytes:
        """Lines first to last - 1 as they stand in the file, ends of lines and all."""
        start, end = int(self.starts[first]), int(self.starts[last])
        found = self.read(start, end - start)
        if len(found) != end - start:
            self.changed()
        return found

    def scan(self) -> NDArray[np.int64]:
        begin = len(MARK) if self.read(0, len(MARK)) == MARK else 0
        found, place = [np.array([begin], np.int64)], 0
        while chunk := self.read(place, CHUNK):
            found.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + (place + 1))
            place += len(chunk)
        starts = np.concatenate(found)
        return starts if starts[-1] == place else np.append(starts, place)

    def read(self, place: int, size: int) -> bytes:
        file = self.file()
        found = os.pread(file.fileno(), size, place)
        while len(found) < size and (more := os.pread(file.fileno(), size - len(found), place + len(found))):
            found += more
        return found

    def file(self) -> FileIO:
        if self.opened is None:
            try:
                file = FileIO(self.path)
            except OSError as error:
                reason = error.strerror or str(error)
                raise InputError(f"{self.path.name} cannot be read", where=self.name, got=reason) from None
            about = os.fstat(file.fileno())
            state = about.st_size, about.st_mtime_ns
            self.seen = self.seen or state
            if state != self.seen:
                self.changed()
            self.opened = file
        return self.opened

    def changed(self) -> NoReturn:
        raise InputError(
            f"{self.path.name} has changed since it was opened",
            where=self.name,
            fix="start again, and do not modify the data while it is in use",
        )
