"""The files of the page, each under a name that is known: an address is looked up, and never made into a path."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
NO_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>regard</title></head>
<body><h1>regard</h1><p>This server has no page. Its <a href="api/v1/docs">HTTP API</a> is there.</p></body></html>
"""


@dataclass(frozen=True)
class File:
    path: Path
    kind: str


def known(folder: Path = FOLDER) -> dict[str, File]:
    """Names as in an address, relative to the folder; only files that really lie within, of kinds that are known."""
    root, found = folder.resolve(), {}
    for path in sorted(root.rglob("*")) if root.is_dir() else []:
        inside = path.is_file() and path.resolve().is_relative_to(root)
        if (
            inside
            and path.suffix in MEDIA_TYPES
            and not any(part.startswith(".") for part in path.relative_to(root).parts)
        ):
            found[path.relative_to(root).as_posix()] = File(path, MEDIA_TYPES[path.suffix])
    return found
