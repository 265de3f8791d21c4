"""What a run writes down, one JSON object a line: `metrics.jsonl` holds only what seed and step determine,
`timing.jsonl` the rest. A checkpoint remembers how long both files were; to resume is to cut them back to that length.

Only the first process of a run has a journal.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import CheckpointError, InputError
from regard.storage.atomic import sync_to_disk

from .formatting import json_number

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
TAIL = 1 << 16  # bytes that are read at once in search of the end of a line


class Journal:
    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.opened: set[str] = set()  # files whose end is known to be the end of a line

    def record(self, line: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl: keys in their order, floats in full, what is not finite as null."""
        self.append(METRICS, line)

    def time(self, line: Mapping[str, Any]) -> None:
        """Add a line to timing.jsonl."""
        self.append(TIMING, line)

    def position(self) -> dict[str, int]:
        """How many bytes each file has, all of them on disk."""
        return {name: synced(self.folder / name) for name in (METRICS, TIMING)}

    def cut(self, position: Mapping[str, int]) -> str:
        """Back to an earlier position; a file that it does not name is emptied. To do it again changes nothing, so a
        crash in between does no harm. -> a warning, where the earlier lines are gone: that stops nobody"""
        if position.get(METRICS, 0) and not (self.folder / METRICS).exists():
            self.cut({})
            return f"{METRICS} is missing: a new file is started, without the lines of earlier steps"
        check(self.folder / METRICS, position.get(METRICS, 0))  # first: one that does not fit is left as it is
        for name in (METRICS, TIMING):
            path, end = self.folder / name, position.get(name, 0)
            if path.exists() and path.stat().st_size > end:
                os.truncate(path, end)
                synced(path)
        return ""

    def lines(self) -> list[dict[str, Any]]:
        """All of metrics.jsonl. A last line that a crash cut short is left out."""
        return read_lines(self.folder / METRICS)

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """In one write, unbuffered: what has been recorded outlives the process."""
        path = self.folder / name
        raw = (json.dumps(json_number(line), ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
        with disk_errors(path, len(raw), "a line of the run's metrics"):
            if name not in self.opened:
                prepare(path)
                self.opened.add(name)
            with open(path, "ab", buffering=0) as file:
                add(file, raw)

    def keep_sample(self, step: int, shown: str) -> None:
        """Examples of what the model made of held-out data, in a file of their own."""
        path, raw = self.folder / "samples" / f"step-{step:06d}.txt", (shown + "\n").encode("utf-8")
        with disk_errors(path, len(raw), "the samples"):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(raw)


@contextmanager
def disk_errors(path: Path, size: int, what: str) -> Iterator[None]:
    """A disk that is full or read-only, in words."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{what} could not be written",
            where=str(path),
            got=error.strerror or str(error),
            expected=f"a writable location with {size} bytes free",
            fix="free some space or make the folder writable, then resume the run",
        ) from error


def prepare(path: Path) -> None:
    """The file is there, also after a power cut, and ends with a whole line: half of one would spoil the next."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b", buffering=0) as file:
        end = last_whole_line(file)
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
    with suppress(OSError):  # not every system can sync a folder
        sync_to_disk(path.parent)


def last_whole_line(file: BinaryIO) -> int:
    """Where the last whole line ends."""
    place = file.seek(0, os.SEEK_END)
    while place:
        start = max(0, place - TAIL)
        file.seek(start)
        if (found := file.read(place - start).rfind(b"\n")) >= 0:
            return start + found + 1
        place = start
    return 0


def add(file: Any, raw: bytes) -> None:
    """All of it, or nothing: a disk that is full may take half of a line."""
    end = file.seek(0, os.SEEK_END)
    try:
        if file.write(raw) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise


def check(path: Path, end: int) -> None:
    """A journal can be cut where a line ends, and nowhere else."""
    size = path.stat().st_size if path.exists() else 0
    if size < end:
        raise CheckpointError(
            f"{path.name} is shorter than it was at the checkpoint",
            where=str(path),
            got=f"{size} bytes",
            expected=f"at least {end} bytes",
            fix="restore the file, or start a new run in another folder",
        )
    if end:
        with open(path, "rb") as file:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                raise CheckpointError(
                    f"{path.name} does not match the checkpoint",
                    where=str(path),
                    got=f"no line ends at byte {end}",
                    fix="restore the file, or start a new run in another folder",
                )


def synced(path: Path) -> int:
    """The length of a file, on disk; 0 where there is none."""
    try:
        sync_to_disk(path)
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        *lines, _ = path.read_bytes().split(b"\n")  # what follows the last newline was cut short, or is nothing
    except FileNotFoundError:
        return []
    return [parsed(raw, f"{path}:{number}") for number, raw in enumerate(lines, 1)]


def parsed(raw: bytes, where: str) -> dict[str, Any]:
    try:
        line = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise CheckpointError("a line of the metrics file is not a JSON object", where=where, got=repr(raw[:60])[1:])
    return line
