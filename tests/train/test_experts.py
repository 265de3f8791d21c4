"""Experts spread over processes: what one process with all of them would do."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.train.runs import RUN, refused, written
from tests.train.test_distribution import launch


@pytest.mark.parametrize("kind", ["plain", "gated", "dropping", "idle", "replayed"])
def test_two_processes_are_one(kind: str, tmp_path: Path) -> None:
    """Outputs, load, gradients. Nothing dropped: as one process. Dropping: as one process that routes in two groups.
    Idle: a process that has only padding still works for the other."""
    launch(2, "experts", tmp_path, kind)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["done-0", "done-1"]


def test_four_processes_are_one(tmp_path: Path) -> None:
    launch(4, "experts", tmp_path, "dropping")


def test_the_engine_trains_them(tmp_path: Path) -> None:
    """Thirty steps on two processes are those of one, norm, moving average and checkpoints too; what two saved, one and
    four go on with alike."""
    for processes in (1, 2):
        launch(processes, "routed", tmp_path / str(processes), "experts")
    one, two = (load_file(tmp_path / str(n) / f"routed-0-{n}.safetensors") for n in (1, 2))
    assert one.keys() == two.keys()
    for name, x in one.items():
        if not name.endswith("k.bias"):  # its gradient is zero but for rounding, which Adam makes large
            torch.testing.assert_close(two[name], x, rtol=1e-3, atol=1e-4, msg=name)
    for processes in (1, 2, 4):
        launch(processes, "routed", tmp_path / "2", "experts")
    first, *others = (load_file(tmp_path / "2" / f"routed-30-{n}.safetensors") for n in (1, 2, 4))
    assert float(first["norm"]) > 0
    for found in others:
        for name, x in first.items():
            if name.endswith("k.bias"):
                continue
            torch.testing.assert_close(found[name], x, rtol=1e-4, atol=1e-5, msg=name)


def test_only_experts_can_be_shared_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RUN)
    assert "has none" in refused(capsys, "train", str(path), "train.distribution=experts", f"folder={tmp_path}/run")
