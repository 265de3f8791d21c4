"""Short reprs: what an editor or a notebook shows of a result says what it is, and not every number in it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from torch import Tensor, nn

LONGEST = 60  # characters of a text
SHOWN = 4  # items


class BriefRepr:
    """Base of dataclasses (with ``repr=False``) that hold tensors, nets, maps or long texts."""

    def __repr__(self) -> str:
        told = []
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.repr and not is_empty(value):
                told.append(f"{one.name}={brief_text(value)}")
        return f"{type(self).__name__}({', '.join(told)})"


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Sequence | Mapping) and len(value) == 0)


def brief_text(value: Any) -> str:
    """Tensors by shape, nets by class and size, long texts and collections by their beginning and length."""
    if isinstance(value, Tensor):
        return f"tensor of {' x '.join(map(str, value.shape)) or 'one number'}"
    if isinstance(value, nn.Module):
        return f"{type(value).__name__} with {sum(x.numel() for x in value.parameters()):,} parameters"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…")
    if isinstance(value, Mapping):
        names = [repr(key) for key in list(value)[:SHOWN]]
        return "{" + ", ".join(names + ([f"... {len(value)} in all"] if len(value) > SHOWN else [])) + "}"
    if isinstance(value, list | tuple):
        items = [brief_text(item) for item in value[:SHOWN]]
        return "[" + ", ".join(items + ([f"... {len(value)} in all"] if len(value) > SHOWN else [])) + "]"
    if callable(value) and not isinstance(value, type):
        return "..."
    text = repr(value)
    plain = " object at 0x" in text or len(text) > 2 * LONGEST
    return f"{type(value).__name__}(...)" if plain else text
