"""The same view in a notebook, as a widget: what is chosen there is set in Python, and what is set here moves it.

Needs the extra [notebook], which is anywidget.
"""

from typing import Any

from regard.errors import InputError

from .document import About, embedded_document
from .saving import about
from .standalone import module, style
from .trace import Trace

PARTS = ("answer", "sentence", "heads", "stage", "cell", "intervene", "analysis")
VIEW: dict[str, Any] = {  # as the page's own state has it; None is what the page takes by itself
    "site": None,
    "head": None,
    "view": "map",
    "query": None,
    "key": None,
    "withSite": None,
    "withHead": None,
    "contrast": "root",
    "changes": [],
}


def widget(found: Trace[Any], model: About | None = None, parts: tuple[str, ...] = PARTS) -> Any:
    """An interactive view of a trace; its traits are ``site``, ``head``, ``view``, ``query``, ``key`` ..."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise InputError(
            "the notebook view requires anywidget, which is not installed", fix="pip install anywidget"
        ) from None
    traits: dict[str, Any] = {name: traitlets.Any(value).tag(sync=True) for name, value in VIEW.items()}
    traits |= {"data": traitlets.Dict().tag(sync=True), "parts": traitlets.List().tag(sync=True)}
    made = type("Look", (anywidget.AnyWidget,), {"_esm": module("widget.js"), "_css": style(), **traits})
    return made(data=embedded_document(found, model or about(found)), parts=list(parts))
