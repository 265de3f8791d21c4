"""The figures of drawn images: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "6.1": [("modes", [[8, 7]] * 3), ("near", [[0.9, 0.4]] * 3)],
    "6.2": [
        ("shuffle differs", 1e-9),
        ("kernel differs", 1e-9),
        ("kernel", [0.0, 0.5, 1.0]),
        ("shuffle.3.3", 2),
        ("transposed", [[1] * 8] * 8),
    ],
    "6.3": [
        ("stages.1.after.2", 128),
        ("stages.1.before.2", 512),
        ("stages.2.blocks", 3),
        ("colours.0.0", 3),
        ("fine.tokens.1", 384),
        ("coarse.added", 384),
        ("coarse.blocks", 4),
        ("last.0", 64),
        ("generator", 83_331_310),
        ("discriminator", 10_203_360),
    ],
    "6.5": [
        ("fid", [[1.0, 3.0, 2.0]] * 5),
        ("score", [[3.0, 1.5, 2.0]] * 5),
        ("score", [[3.0, 2.0, 0.9]] * 5),
    ],
    "6.6": [
        *((f"{name}.last", 0.01) for name in ("linear", "cosine", "scaled linear", "zero terminal")),
        *((f"{name}.differs", 1e-6) for name in ("linear", "cosine", "scaled linear", "zero terminal")),
        *((f"{name}.falls", False) for name in ("linear", "cosine", "scaled linear", "zero terminal")),
        ("linear.first", 0.99),
        ("scaled linear.first", 0.99),
    ],
    "6.6b": [
        *((f"error.{solver}.linspace 13", [1e-9] * 3) for solver in ("ddpm", "ddim", "dpm-solver++", "plms", "euler")),
        ("reference.linspace 10", [1e-14] * 3),
        ("reference.linspace 13", [1e-14] * 3),
    ],
    "6.6c": [
        ("drawn.dpm-solver++", [[0.01] * 5] * 3),
        ("drawn.dpm-solver++", [[0.5, 0.1, 0.02, 0.004, 0.001]] * 3),
        ("between.ddim", [[0.01] * 5] * 3),
        ("between.dpm-solver++", [[0.01] * 5] * 3),
    ],
}


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
