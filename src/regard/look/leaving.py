"""Renamed to ``regard.look.exclusion``."""

from regard.deprecation import renamed

OLD = {name: f"regard.look.exclusion.{name}" for name in ("replaced", "unseen", "without")}


def __getattr__(name: str) -> object:
    return renamed(__name__, name, OLD)
