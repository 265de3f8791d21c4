"""Data that was given in Python, written down: from then on a run needs nothing else."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from regard.storage.atomic import sync_to_disk


def write_rows(path: Path, keys: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Path:
    """One JSON object a line; a value that is missing is null there, and reported when it is read."""
    with open(path, "xb") as file:
        for row in rows:
            line = json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) + "\n"
            file.write(line.encode("utf-8", "replace"))
    sync_to_disk(path)
    return path


def one_of(asked: Mapping[str, object], key: str, count: int) -> list[str | int]:
    """The columns that a setting names; none where it does not."""
    given = asked.get(key, [])
    found = list(given) if isinstance(given, list | tuple) else [given]
    return [x for x in found if isinstance(x, str | int)] if len(found) == count else []
