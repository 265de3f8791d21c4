"""Renamed to ``regard.look.standalone``."""

from regard.deprecation import resolve_renamed

OLD = {"standalone": "regard.look.standalone.standalone_page", "module": "regard.look.standalone.module"}


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, OLD)
