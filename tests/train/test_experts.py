"""Experts spread over processes: what one process with all of them would do."""

from pathlib import Path

import pytest

from tests.train.test_distribution import launch


@pytest.mark.parametrize("kind", ["plain", "gated", "dropping", "idle", "replayed"])
def test_two_processes_are_one(kind: str, tmp_path: Path) -> None:
    """Outputs, load, gradients. Nothing dropped: as one process. Dropping: as one process that routes in two groups.
    Idle: a process that has only padding still works for the other."""
    launch(2, "experts", tmp_path, kind)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["done-0", "done-1"]


def test_four_processes_are_one(tmp_path: Path) -> None:
    launch(4, "experts", tmp_path, "dropping")
