"""The diagrams of efficient attention and of mixing without it: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails
from regard_lectures.table import FIGURES

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "10.2": [
        ("errors.4", 0.2),
        ("fine", 0.1),
        ("brackets", 1e-3),
        ("kept.0", 64),
        ("kept.1", 400),
        ("faded", 1e-3),
    ],
    "10.3b": [
        ("differs", 1e-3),
        ("layer", 1e-3),
        ("definition", 1e-3),
        ("scores", [[1.0] * 4] * 6),
        ("state", [[1.0] * 12] * 12),
        ("y", [[1.0]]),
        ("operations.pairs.4", 738_197_504),
        ("operations.sums.4", 2_818_572_288),
    ],
    "10.6": [
        ("order", list(range(16))),
        ("weights.0", [0.1] * 16),
        ("seen.3", 16),
        ("definition", 1e-3),
        ("one bucket", 1e-3),
        ("one bucket, causal", 1e-3),
        ("one chunk", 1e-3),
        ("other buckets", 1e-3),
        ("later", 1e-9),
        ("first", 0.0),
    ],
    "10.6b": [
        ("codes.0", 7),
        ("collisions.one plane", [0.5] * 10),
        ("collisions.four planes", [0.5] * 10),
        ("collisions.sixteen pies", [1.0, 0.4, 0.3, 0.2, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0]),
        ("pies.5.circle.7", 9),
        ("together.near", 0.25),
        ("together.far", 0.25),
    ],
    "10.6c": [
        ("moved", 0.0),
        ("float32", 1e-3),
        ("float64", 1e-9),
        ("slopes", 1e-3),
        ("slopes, dropout", 1e-3),
        ("back", 1e-3),
        ("added", 1e-3),
    ],
    "10.6d": [
        ("bytes.reversible.5", 13_000_000),
        ("bytes.ordinary.5", 30_000_000),
        ("weights.reversible.0", 1),
    ],
    "10.8": [
        ("write.0", [0.2] * 5 + [0.0] * 4),
        ("write.1.0", 0.5),
        ("read.0.0", 0.9),
        ("write", [[0.12] * 9] * 3),
        *((name, 1e-3) for name in ("gated", "soft", "off", "patches", "order", "order of slots", "losers")),
    ],
    "10.9b": [
        ("sizes.tokens", [6, 5, 6]),
        ("sizes.features", [9, 12, 9]),
        *((name, 1e-3) for name in ("by hand", "other features", "other patches", "weights along", "circulant")),
        ("order", 0.0),
    ],
    "10.10b": [
        ("anatomy.parts.0.kind", "attention"),
        ("anatomy.parts.1.norm", "before"),
        ("anatomy.depth", 11),
        ("weights.mixer", 4),
        ("weights.all", 110_000_000),
        ("y.0.0", 100.0),
        *((name, 1e-3) for name in ("by hand", "linear", "complex", "four times")),
    ],
}


def test_they_stand_in_the_order_of_the_table() -> None:
    assert [name for name in FIGURES if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
