"""Figures of sections 10 and 11 that are not confirmed: numbers as they were expected would confirm them."""

from typing import Any

import pytest

from lectures.tests.test_figures import module, recorded, spoiled
from regard_lectures.figure import agreement, verdict
from regard_lectures.looking.candies import NAMES, QUERY

OWN = [float(name == NAMES[QUERY]) / NAMES.count(NAMES[QUERY]) for name in NAMES]  # one kind alone
HALF, EVEN = [1 / 12] * 12 + [0.0] * 12, [1 / 24] * 24
WIDE = {f"street.{i}.{part}": value for i in range(6) for part, value in (
    ("nouns", [[[0.0, 0.4]] * 4] * 4),
    ("pronouns", {"es": 0.1, "sie": 0.8, "er": 0.05}),
)}  # fmt: skip
EXPECTED: dict[str, dict[str, Any]] = {
    "10.1b": {"writer.held": [[0.81] * 10] * 6},
    "10.3": {"errors.large.sines and cosines": [4.0] * 7 + [1.0] * 2},
    "10.3c": {"losses.Performer alone": [[1.9] * 11] * 3, "losses.swapped": [[2.5] + [1.86] * 10] * 3},
    "10.3d": {"rivals.Reformer.losses": [[1.0] * 11] * 3, "rivals.Linformer.losses": [[1.0] * 11] * 3},
    "10.5e": {"losses.64 sums": [0.63, 0.81, 0.88]},
    "10.8b": {
        "ways.8 slots, all write.right": [0.86, 0.87],
        "ways.8 slots, 5 write.right": [0.87] * 2,
        "on blobs": 0.3,
    },
    "11.2c": WIDE,
    "11.5": {"distances.0": [3.0, 9.0, 16.0]},
    "11.7": {"heat": {name: {"weights": some} for name, some in (("0.25", OWN), ("1.0", HALF), ("4.0", EVEN))}},
    "11.8b": {"nats.Shakespeare.Transformer.4": [1.7]},
}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_numbers_as_expected_confirm_it(name: str) -> None:
    numbers = recorded(name)["numbers"]
    for path, value in EXPECTED[name].items():
        numbers = spoiled(numbers, path, value)
    checks = module(name).checks(numbers)
    assert [check.name for check in checks if not check.ok] == []
    assert verdict(checks) == "confirmed"


def test_one_start_of_two_is_not_most() -> None:
    """10.8b, if one of two starts had been as expected: the check fails still, and says so."""
    numbers = spoiled(recorded("10.8b")["numbers"], "ways.8 slots, 5 write.right.0", 0.87)
    checks = {check.name: check for check in module("10.8b").checks(numbers)}
    one = checks["8 slots, 5 write, over all look at all: points"]
    assert (one.ok, one.seeds) == (False, (1, 2))
    assert agreement(list(checks.values())) == "0 of 2"
