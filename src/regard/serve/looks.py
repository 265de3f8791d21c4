"""Looks that are kept: traces by their ids, the latest, as long as there is room.

An id is the hash of model, input and changes, so one that was dropped can be asked for again and is the same.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from torch import Tensor

from regard.look.answers import Answer
from regard.look.document import (
    About,
    document_data,
    document_digest,
    downsample,
    downsampled_heads,
    find_site,
    float32_bytes,
    head_map,
    map_row,
    map_sides,
    map_weights,
    shade_bytes,
    thumbnails,
)
from regard.look.trace import Trace
from regard.modalities.page_input import InputContext
from regard.modalities.page_inputs import look_inputs
from regard.model import Model

from .limits import Limits
from .model_list import ModelShelf
from .refusals import RefusedError
from .schema import LookRequest
from .uploads import Uploads

REMEMBERED = 2048  # requests whose looks are known by their ids


@dataclass(eq=False)
class StoredLook:
    """One trace, and what was made of it. The lock is for all that computes from it."""

    trace: Trace[Any]
    document: dict[str, Any]
    model: Model
    about: About
    lock: threading.RLock = field(default_factory=threading.RLock)
    small: bytes = b""
    level: tuple[str, int, Tensor] | None = None  # the latest that was asked for: all heads of a site

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @property
    def size(self) -> int:
        """In bytes: what the net gave, and the maps that were computed from it and are kept."""
        kept = sum(one.weights.nbytes for one in tuple(self.trace.maps.kept.values()))
        output = self.trace.output.nbytes if isinstance(self.trace.output, Tensor) else 0
        level = 0 if self.level is None else self.level[2].nbytes
        return self.trace.bytes + output + kept + level + len(self.small) + (1 << 14)

    def map(self, site: str, head: int | None, level: int | None = None) -> bytes:
        """Exact numbers, or a picture halved so many times; an influence is shown as shares of its largest."""
        with self.lock:
            if level is None:
                return float32_bytes(head_map(map_weights(self.trace, site), head))
            if head is None:
                weights = head_map(map_weights(self.trace, site), head)
                if find_site(self.trace, site)[0].kind == "influence":
                    weights = weights / weights.max().clamp(min=1e-30)
                return shade_bytes(downsample(weights, level))
            if self.level is None or self.level[:2] != (site, level):
                self.level = (
                    site,
                    level,
                    downsampled_heads(self.trace, site, level),
                )  # another head of it is asked for next
            return shade_bytes(head_map(self.level[2], head))

    def row(self, site: str, head: int | None, row: int) -> bytes:
        with self.lock:
            size, _ = map_sides(*find_site(self.trace, site))
            if row >= size:
                raise RefusedError(422, "row index out of range", got=str(row), expected=f"0 to {size - 1}")
            return float32_bytes(head_map(map_row(self.trace, site, row), head))

    def thumbnails(self) -> bytes:
        with self.lock:
            self.small = self.small or thumbnails(self.trace)
            return self.small


class Looks:
    def __init__(self, shelf: ModelShelf, room: int = Limits.looks, uploads: Uploads | None = None) -> None:
        self.shelf, self.room = shelf, room
        self.uploads = Uploads() if uploads is None else uploads
        self.kept: OrderedDict[str, StoredLook] = OrderedDict()
        self.known: OrderedDict[str, str] = OrderedDict()  # hashes of requests -> ids
        self.lock = threading.RLock()
        shelf.dropped.append(self.forget)

    def get(self, name: str) -> StoredLook:
        with self.lock:
            if name not in self.kept:
                raise RefusedError(410, "this look has expired", fix="post it again to get the same id")
            self.kept.move_to_end(name)
            return self.kept[name]

    def keep(self, look: StoredLook) -> None:
        with self.lock:
            self.kept[look.id] = look
            self.kept.move_to_end(look.id)
        self.trim()

    def trim(self) -> None:
        """The oldest go first; the latest stays, however large it is."""
        with self.lock:
            sizes = {name: look.size for name, look in self.kept.items()}
            while len(self.kept) > 1 and sum(sizes.values()) > self.room:
                name, _ = self.kept.popitem(last=False)
                del sizes[name]
            while len(self.known) > REMEMBERED:
                self.known.popitem(last=False)

    def forget(self, model: Model) -> None:
        """A model is gone, and with it all that would keep its weights."""
        with self.lock:
            for name in [name for name, look in self.kept.items() if look.model is model]:
                del self.kept[name]

    def look(self, asked: LookRequest) -> StoredLook:
        """Computed, unless it is kept."""
        self.shelf.refresh(asked.model)
        request = sha256(asked.model_dump_json().encode("utf-8", "replace")).hexdigest()
        with self.lock:
            known = self.kept.get(self.known.get(request, ""))
        if known is not None:
            return self.get(known.id)
        changes = [one.change() for one in asked.changes]
        with self.shelf.using(asked.model, asked.attention) as loaded:
            shown = look_inputs(asked.input, InputContext(loaded.model, changes, True, self.uploads.get))
            found = loaded.model.look(*shown, changes=changes)
            before = self.before(asked) if changes else None
            document = described(found, loaded.about, before, asked.attention)
            look = StoredLook(found, document, loaded.model, loaded.about)
        self.keep(look)
        with self.lock:
            self.known[request] = look.id
        return look

    def before(self, asked: LookRequest) -> Answer | None:
        """What was answered without the changes: the page has most likely asked for that a moment ago."""
        return self.look(asked.model_copy(update={"changes": []})).trace.answer


def described(found: Trace[Any], about: About, before: Answer | None, attention: str | None) -> dict[str, Any]:
    """Under another mechanism a model is another one."""
    data = document_data(found, about, before)
    if attention is not None:
        data["model"]["attention"] = attention
        data["id"] = document_digest({name: data[name] for name in ("model", "input", "changes")})
    return data
