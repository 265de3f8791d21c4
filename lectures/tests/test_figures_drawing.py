"""The figures of drawn images: every check can fail."""

from typing import Any

import pytest

from lectures.tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
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
}


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
