"""Whether a run's data is still what it was when the run began.

On other rows it would be another run, and rows that are held out now might be among those that it has learned from.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.fingerprints import fingerprint
from regard.errors import InputError
from regard.modalities.goals import task_model_names
from regard.modalities.sources import source_of
from regard.storage.documents import json_bytes, read_json

from .settings import RunSettings

FILE, RUN = "data.json", "run.toml"


def fingerprints_of(run: RunSettings) -> Iterator[tuple[str, str]]:
    """Of each file its path, and its size and a digest; of a folder, of all that is in it but runs, perhaps this very
    one; of a teacher too."""
    kind = source_of(run.data)
    names = [name for key in kind.paths for name in named_files(run.data, key) if key not in kind.listed]
    names += [name for key in kind.listed for name in named_files(run.data, key) if not Path(name).is_dir()]
    models = [*task_model_names(run.task), *([] if run.start is None else [run.start.model])]
    names += [name for name in models if Path(name).is_dir()]
    for name in dict.fromkeys(names):
        yield name, fingerprint(Path(name), holds_run)
    yield from kind.more_files(run.data)


def named_files(data: Any, key: str) -> tuple[str, ...]:
    """The files that a setting names: one, several or none."""
    given: str | tuple[str, ...] = getattr(data, key)
    return given if isinstance(given, tuple) else (given,) if given else ()


def holds_run(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (FILE, RUN))


def fingerprint_bytes(run: RunSettings) -> bytes:
    return json_bytes(dict(fingerprints_of(run)))


def check_fingerprints(folder: Path, run: RunSettings) -> None:
    """Refuse what has changed; a run of an earlier version has nothing to compare with."""
    path = folder / FILE
    if not path.is_file():
        return
    before: Mapping[str, Any] = read_json(path)
    for name, now in fingerprints_of(run):
        if before.get(name, now) != now:
            raise InputError(
                "the data has changed since the run started",
                where=name,
                got=now,
                expected=str(before[name]),
                fix="restore the file, or start a new run in another folder",
            )
