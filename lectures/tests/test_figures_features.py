"""The figures of random features: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "10.3": [
        ("errors.small.positive, independent", [0.02] * 9),
        ("errors.small.positive, orthogonal", [0.02] * 9),
        ("errors.large.positive, orthogonal", [0.9, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02]),
        ("errors.large.sines and cosines.6", 0.2),
        ("errors.small.positive, orthogonal.-1", 0.02),
        ("errors.large.with noise added", [0.3] * 9),
    ],
    "10.3c": [
        *((f"losses.{name}", [[9.0] * 11] * 3) for name in ("softmax", "Performer", "swapped")),
        ("losses.swapped", [[0.1] * 11] * 3),
    ],
    "10.3d": [
        *((f"rivals.{name}.losses", [[0.1] * 11] * 3) for name in ("softmax", "Linformer")),
        ("rivals.Reformer.losses", [[0.5] * 11] * 3),
        ("rivals.Performer.steps", 1),
    ],
}


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
