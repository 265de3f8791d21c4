"""The figures of detection: every check can fail."""

from typing import Any

import pytest

from regard.figures.table import FIGURES
from tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.12g": [
        ("counted.DETR, ResNet-50", 30_000_000),
        ("counted.DETR, ResNet-101", 30_000_000),
        ("quoted.DETR, ResNet-50.AP", 50.0),
    ],
}


def test_all_that_is_recorded_is_spoiled() -> None:
    assert [name for name in FIGURES if name.startswith("5.12")] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
