"""The figures of efficient attention and of mixing without it: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails
from regard_lectures.table import FIGURES

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "10.6e": [("full", [0.5] * 3), ("runs", [[0.7, 0.6, 0.9, 0.95]] * 3), ("runs", [[0.75, 0.8, 0.81, 0.82]] * 3)],
    "10.6f": [(f"losses.{name}", [[9.0] * 11] * 3) for name in ("full attention", "8 rounds")],
    "10.6g": [(f"losses.{name}", [[9.0] * 11] * 3) for name in ("full attention", "4 rounds", "1 round")],
    "10.7": [
        ("sums", 0.1),
        ("output moves", 0.1),
        ("maps move", 0.1),
        ("places left behind", 0.0),
        ("stripes.2", 0.3),
        ("latents", 17),
    ],
    "10.9": [
        *((f"rows.mixer-{size}.all", 1_000_000) for size in ("s32", "s16", "b32", "b16", "l32", "l16", "h14")),
        ("rows.mixer-s32.rest", 1),
        ("rows.mixer-h14.patches", 200_000_000),
        ("rows.mixer-s16.patches", 100),
    ],
    "10.10": [
        ("maps.fourier.map.3.4", 0.1),
        ("maps.fourier.map.0", [100.0] * 12),
        ("maps.fourier.change", 0.1),
        ("maps.fourier.weights", 4),
        ("maps.softmax.change", 0.0),
        ("maps.token-mlp.change", 0.0),
        ("writers", 12),
    ],
}


def test_all_of_these_sections_are_spoiled_above() -> None:
    assert [name for name in FIGURES if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
