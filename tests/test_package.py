"""The package itself: the names that it promises."""

import importlib
import inspect

import pytest

import regard


def test_the_package_gives_its_names_lazily() -> None:
    assert set(regard.HOMES) | {"__version__"} == set(regard.__all__)
    assert set(regard.__all__) <= set(dir(regard))
    for name, home in regard.HOMES.items():
        if name != "train":  # the package of this name, which can be called: see tests/api
            assert inspect.unwrap(getattr(regard, name)) is inspect.unwrap(getattr(importlib.import_module(home), name))
    with pytest.raises(AttributeError, match=r"bild.*build"):
        regard.bild  # noqa: B018
