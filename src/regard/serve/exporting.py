"""A look as one HTML file that opens without a server: its document, its maps, and what cells are made of."""

import base64
import importlib
from importlib.util import find_spec
from typing import Any

from torch import Tensor

from regard.look.document import find, weights_of
from regard.look.trace import Call
from regard.nn.attention import spread

from .looks import Look
from .refusals import RefusedError

MOST = 1 << 26  # bytes of maps in one file
PAGE = "regard.serve.joined"  # what makes one file of the page


def exported(look: Look) -> bytes:
    if find_spec(PAGE) is None:
        raise RefusedError(404, "this server has no page that could be exported")
    with look.lock:
        data = embedded(look)
    found: str = importlib.import_module(PAGE).standalone(data)
    return found.encode("utf-8", "replace")


def embedded(look: Look) -> dict[str, Any]:
    """Maps as float16, vectors as float32, both in base64."""
    maps: dict[str, str] = {}
    vectors: dict[str, dict[str, str]] = {}
    size = 0
    for row in look.document["sites"]:
        name, axes = row["name"], look.document["axes"]
        size += 2 * row["heads"] * axes[row["rows"]]["size"] * axes[row["columns"]]["size"]
        if size > MOST:
            raise RefusedError(422, "this look is too large for one file", expected=f"at most {MOST >> 20} MB of maps")
        maps[name] = packed(weights_of(look.trace, name), "<f2")
        site, call = find(look.trace, name)
        record = site.records[call]
        if row["arithmetic"] and isinstance(record, Call):
            heads = record.shape[-3]
            parts = {"queries": record.q, "keys": spread(record.k, heads), "values": spread(record.v, heads)}
            vectors[name] = {part: packed(x[0], "<f4") for part, x in parts.items()}
    return {"document": look.document, "maps": maps, "vectors": vectors}


def packed(x: Tensor, kind: str) -> str:
    return base64.b64encode(x.float().contiguous().numpy().astype(kind).tobytes()).decode("ascii")
