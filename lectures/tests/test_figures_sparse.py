"""The figures of sparse attention, Synthesizer and Linformer: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails
from regard_lectures.table import FIGURES

ALL, NONE, EYE = ["1" * 36] * 36, ["0" * 36] * 36, ["0" * i + "1" + "0" * (35 - i) for i in range(36)]
LOWER = ["1" * (i + 1) + "0" * (35 - i) for i in range(36)]
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "10.1": [
        ("full.near", ALL),
        *((f"{name}.{part}", NONE) for name in ("strided", "fixed") for part in ("near", "far")),
        ("fixed.far", EYE),
        ("fixed.near", LOWER),
        ("differs", 1e-3),
    ],
    "10.1b": [
        ("writer.held", [[0.4] * 10] * 6),
        ("untrained.held", [[0.3] * 10] * 6),
        ("trained.small", 0.4),
        ("untrained.small", 0.1),
    ],
    "10.1c": [
        ("losses.strided.-1", 9.0),
        ("losses.full.-1", 9.0),
        ("right.full.-1", 0.5),
        ("right.strided.-1", 0.5),
        ("right.local.-1", 0.5),
    ],
    "10.4": [("compared.changed", [1]), ("dense.changed", [0, 1]), ("random.changed", [1])],
    "10.4b": [
        ("last.fixed random", [0.1] * 3),
        ("last.random", [9.0] * 3),
        ("last.random + vanilla", [9.0] * 3),
    ],
    "10.4c": [
        ("last.softmax", [0.5] * 3),
        ("last.random + vanilla", [0.5] * 3),
        *((f"last.{name}", [0.9] * 3) for name in ("dense", "random", "fixed random")),
    ],
    "10.5": [
        ("random.127", 0.8),
        ("product.127", 0.99),
        ("softmax.127", 0.95),
        ("softmax.0", 0.01),
    ],
    "10.5b": [
        ("random.7", 0.5),
        ("trained.heads.1", [0.5] * 12),
        ("trained.heads.5", [0.8] * 12),
        ("trained.heads", [[0.8] * 12] * 6),
    ],
    "10.5c": [
        ("Q", [[1.0] * 4] * 3),
        ("EK", [[1.0] * 4] * 8),
        ("FV", [[1.0] * 4] * 8),
        ("weights", [[1.0] * 8] * 8),
        ("Y", [[1.0] * 4] * 3),
        ("untouched", 1e-3),
        ("by hand", 1e-3),
        ("whole", 1e-3),
        ("padded", 1e-3),
        ("unmasked", 0.0),
        ("parameters.64", 383),
        ("parameters.128", 4096),
        ("parameters.256", 65536),
    ],
    "10.5d": [
        ("softmax", [9.0] * 3),
        ("windows", [[0.9, 0.8, 9.0, 0.6]] * 3),
        ("whole matrices", [[0.9, 0.8, 9.0, 0.6]] * 3),
        ("softmax", [0.1] * 3),
    ],
    "10.5e": [
        ("losses.64 windows.1", 9.0),
        ("losses.64 windows.-1", 9.0),
        ("losses.64 sums.1", 9.0),
        ("seconds.32 sums.-1", 99.0),
        ("seconds.softmax.-1", 1e-9),
    ],
}


def test_all_of_these_sections_are_spoiled_above() -> None:
    names = [name for name in FIGURES if name.startswith(("10.1", "10.4", "10.5")) and not name.startswith("10.10")]
    assert names == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
