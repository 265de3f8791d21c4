"""Renamed to ``regard.look.exclusion``."""

from regard.deprecation import resolve_renamed

OLD = {name: f"regard.look.exclusion.{name}" for name in ("replaced", "unseen", "without")}


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, OLD)
