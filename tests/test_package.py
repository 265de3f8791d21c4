"""The package itself: the names that it promises, and the layers of its tests."""

import importlib
import inspect
import shutil
import subprocess
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]


def test_the_package_gives_its_names_lazily() -> None:
    assert set(regard.HOMES) | {"__version__"} == set(regard.__all__)
    assert set(regard.__all__) <= set(dir(regard))
    for name, home in regard.HOMES.items():
        if name != "train":  # the package of this name, which can be called: see tests/api
            assert inspect.unwrap(getattr(regard, name)) is inspect.unwrap(getattr(importlib.import_module(home), name))
    with pytest.raises(AttributeError, match=r"bild.*build"):
        regard.bild  # noqa: B018


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("layer", "path"),
    [
        ("nn", "tests/nn"),
        ("models/test_swin.py", "tests/models/test_swin.py"),
        ("lectures", "lectures/tests"),
        ("lectures/test_figures.py", "lectures/tests/test_figures.py"),
    ],
)
def test_a_layer_is_a_folder_or_a_file_of_tests(layer: str, path: str) -> None:
    assert (ROOT / path).exists()
    for target in ("test", "test-slow"):
        words = ["make", "--dry-run", "--old-file=.venv/.stamp-dev", target, f"LAYER={layer}"]
        told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert path in told.split()
