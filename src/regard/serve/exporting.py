"""A look as one HTML file that opens without a server."""

from regard.look.document import embedded_document
from regard.look.standalone import standalone_page

from .looks import StoredLook
from .refusals import RefusedError

MOST = 1 << 26  # bytes of maps in one file


def export_look(look: StoredLook) -> bytes:
    axes = look.document["axes"]
    size = sum(2 * x["heads"] * axes[x["rows"]]["size"] * axes[x["columns"]]["size"] for x in look.document["sites"])
    if size > MOST:
        raise RefusedError(422, "the look is too large for a single file", expected=f"at most {MOST >> 20} MB of maps")
    with look.lock:
        data = embedded_document(look.trace, look.about) | {"document": look.document}
    return standalone_page(data).encode("utf-8", "replace")
