"""Whether two rows hold the same, whatever they are made of."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor


def same(one: Any, other: Any) -> bool:
    """Of one type and with the same content, to the bit; two nan are the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return bool(((one == other) | (one.isnan() & other.isnan())).all())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) and one.dtype.hasobject:
        return same(one.tolist(), other.tolist())
    if isinstance(one, np.ndarray | np.generic | Image.Image):
        first, second = np.asarray(one), np.asarray(other)
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    parts = parts_of(one)
    return bool(one == other) if parts is None else same(parts, parts_of(other))


def parts_of(one: Any) -> dict[str, Any] | None:
    """What an object is compared by, unless it says itself to what it is equal."""
    if is_dataclass(one):
        return {field.name: getattr(one, field.name) for field in fields(one)}
    equals: Any = type(one).__eq__
    try:
        return vars(one) if equals is object.__eq__ else None
    except TypeError:  # it has none
        return None
