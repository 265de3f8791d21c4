"""Files that were uploaded, in memory, until newer ones need their room.

An id is the hash of the bytes, so the same file has the same id, and one that was dropped can be uploaded again.
"""

import threading
from collections import OrderedDict
from hashlib import sha256

from regard.modalities.page_inputs import every_file

from .limits import LARGEST_UPLOAD, Limits
from .refusals import RefusedError

ADDRESS = "/api/v1/upload"
ANYTHING = "application/octet-stream"
REMEMBERED = 4096  # ids of files that are not kept any more


def sent_as() -> tuple[str, ...]:
    """What the sender may call a file."""
    return (ANYTHING, *(kind.type for kind in every_file()))


def type_of(raw: bytes, called: str) -> str:
    """By the first bytes; what the sender calls it must not be something else."""
    found = next((kind.type for kind in every_file() if kind.begins(raw)), None)
    if found is None or called not in (ANYTHING, found):
        known = ", ".join(kind.type for kind in every_file())
        raise RefusedError(415, "unsupported file type", got=found or called, expected=known)
    return found


class Uploads:
    def __init__(self, room: int = Limits.uploads) -> None:
        self.room = room
        self.kept: OrderedDict[str, bytes] = OrderedDict()
        self.gone: OrderedDict[str, None] = OrderedDict()
        self.lock = threading.Lock()

    def put(self, raw: bytes) -> str:
        """Its id. The oldest go first; the latest stays."""
        if len(raw) > min(LARGEST_UPLOAD, self.room):
            raise RefusedError(413, "the file is too large", expected=f"at most {min(LARGEST_UPLOAD, self.room)} bytes")
        name = sha256(raw).hexdigest()[:32]
        with self.lock:
            self.kept[name] = raw
            self.kept.move_to_end(name)
            self.gone.pop(name, None)
            while sum(map(len, self.kept.values())) > self.room:
                self.gone[self.kept.popitem(last=False)[0]] = None
            while len(self.gone) > REMEMBERED:
                self.gone.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        with self.lock:
            if name in self.kept:
                self.kept.move_to_end(name)
                return self.kept[name]
            if name in self.gone:
                raise RefusedError(410, "this upload has expired", fix="upload it again to get the same id")
        raise RefusedError(404, "unknown upload", fix="POST the bytes of a file to upload to get an id")
