"""The examples of docs/extending.md as files outside of the package, and tables that are as they were afterwards."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import plugins

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"


def examples() -> dict[str, str]:
    """The whole files of the document, by their names."""
    return dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL))


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    for source in plugins.sources():
        plugins.forget(source.name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in examples().items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path
