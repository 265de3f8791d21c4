"""Experts spread over processes: what one process with all of them would do."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.train.processes import launch
from tests.train.runs import RUN, refused, written


@pytest.mark.parametrize("kind", ["plain", "gated", "dropping", "idle", "replayed"])
def test_two_processes_are_one(kind: str, tmp_path: Path) -> None:
    """Outputs, load, gradients. Nothing dropped: as one process. Dropping: as one process that routes in two groups.
    Idle: a process that has only padding still works for the other."""
    launch(2, "experts", tmp_path, kind)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["done-0", "done-1"]


def test_four_processes_are_one(tmp_path: Path) -> None:
    launch(4, "experts", tmp_path, "dropping")


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten steps on one process, and the same on two."""
    folder = tmp_path_factory.mktemp("routed")
    for processes in (1, 2):
        launch(processes, "routed", folder / str(processes), "experts")
    return folder


def test_the_engine_trains_them(routed: Path) -> None:
    """On two processes as on one, norm, moving average and checkpoints too."""
    one, two = (load_file(routed / str(n) / f"routed-0-{n}.safetensors") for n in (1, 2))
    assert one.keys() == two.keys()
    for name, x in one.items():
        if not name.endswith("k.bias"):  # its gradient is zero but for rounding, which Adam makes large
            torch.testing.assert_close(two[name], x, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_what_two_saved_others_go_on_with_alike(routed: Path, processes: int) -> None:
    for number in (1, processes):
        launch(number, "routed", routed / "2", "experts")
    one, found = (load_file(routed / "2" / f"routed-10-{n}.safetensors") for n in (1, processes))
    assert float(one["norm"]) > 0
    for name, x in one.items():
        if not name.endswith("k.bias"):
            torch.testing.assert_close(found[name], x, rtol=1e-4, atol=1e-5, msg=name)


def test_only_experts_can_be_shared_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RUN)
    assert "have no experts" in refused(
        capsys, "train", str(path), "train.distribution=experts", f"folder={tmp_path}/run"
    )
