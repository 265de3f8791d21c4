"""Small runs without the pictures of their curves, which take longer than the runs themselves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest


@contextmanager
def undrawn() -> Iterator[Callable[..., Any]]:
    """The journal is read as for the pictures, and none is drawn. What would draw them is given."""
    curves = import_module("regard.train.curves")  # here, not above: it imports matplotlib
    with pytest.MonkeyPatch.context() as patch:
        draw = curves.draw
        patch.setattr(curves, "draw", lambda lines, folder: curves.curves_of(lines))
        yield draw
