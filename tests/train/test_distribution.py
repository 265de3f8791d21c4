"""Many processes: the same curve, the same gradient, and checkpoints that any number of them can read."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.train.checkpoint import Checkpoints
from regard.train.distribution import ALONE, join_world
from tests.train.processes import launch
from tests.train.runs import RUN, trained, written

ROOT = Path(__file__).resolve().parents[2]


def torchrun(what: str, folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    """Two processes, as a user starts them."""
    ours = Path(regard.__file__).parents[1]  # the same as in this process, wherever that has it from
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ours)))}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    return subprocess.run(
        [*command, "tests.train.worker", what, str(folder), kind],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line] + [
        line["held_out"]["loss"] for line in lines if "held_out" in line
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    launch(1, "curve", folder, "ddp")
    return folder


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    launch(2, "curve", folder, request.param)
    return request.param, folder


def test_two_processes_follow_the_same_curve(alone: Path, together: tuple[str, Path]) -> None:
    """Twenty steps to 1e-5."""
    one, two = losses(alone), losses(together[1])
    assert len(one) == 22
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-5


@pytest.fixture(scope="module")
def resumed(together: tuple[str, Path]) -> float:
    """The loss with which one process goes on."""
    kind, folder = together
    launch(1, "resume", folder, kind)
    return json.loads((folder / "resumed-1.json").read_text())["loss"]


@pytest.mark.parametrize("processes", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_what_two_saved_any_number_can_read(together: tuple[str, Path], resumed: float, processes: int) -> None:
    kind, folder = together
    if processes > 1:
        launch(processes, "resume", folder, kind)
    found, saved = load_file(folder / f"resumed-{processes}.safetensors"), load_file(folder / "weights.safetensors")
    for name, x in saved.items():
        assert torch.equal(found[name], x), name
    assert all(found[f"moment.{name}"].abs().sum() > 0 for name in saved if not name.endswith("k.bias"))
    told = json.loads((folder / f"resumed-{processes}.json").read_text())
    assert told["step"] == 20
    assert abs(told["loss"] - resumed) < 1e-3  # a sum over the batch


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_any_number_of_processes_gives_the_same_gradient(tmp_path: Path, kind: str) -> None:
    launch(1, "gradient", tmp_path, "ddp")
    launch(2, "gradient", tmp_path, kind)
    one = load_file(tmp_path / "gradient-ddp-1.safetensors")
    two = load_file(tmp_path / f"gradient-{kind}-2.safetensors")
    assert one.keys() == two.keys()
    for name, x in one.items():
        if not name.endswith("mixer.k.bias"):  # zero but for rounding
            assert (two[name] - x).norm() <= 1e-12 * x.norm(), name


def test_what_one_saved_two_can_share(tmp_path: Path, alone: Path) -> None:
    """A checkpoint that is whole goes on sharded: each process takes its share of weights and moments."""
    shutil.copytree(alone / "run", tmp_path / "run")
    launch(2, "resume", tmp_path, "fsdp")
    found = load_file(tmp_path / "resumed-2.safetensors")
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000020"
    moments = load_file(checkpoint / "net.optimizer.safetensors")
    for name, x in load_file(checkpoint / "net.safetensors").items():
        assert torch.equal(found[name], x), name
        assert torch.equal(found[f"moment.{name}"], moments[f"exp_avg/{name}"]), name


@pytest.mark.parametrize("kind", ["one", "experts", "fed", "feeds itself"])
def test_every_net_can_be_shared_out(tmp_path: Path, kind: str) -> None:
    """Methods that call each other, too: what comes out is what one process with all weights would make."""
    launch(2, "nets", tmp_path, kind)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("full", "step-000004"),  # the second process cannot write its share
        ("gone", "step-000004"),  # the first cannot make the folder
        ("alone", "row 7"),  # bad input that only the second process meets
    ],
)
def test_when_one_process_fails_all_stop_and_one_says_why(tmp_path: Path, kind: str, told: str) -> None:
    written(tmp_path, RUN.replace("evaluate = 8", "evaluate = 80"))
    done = launch(2, "spoil", tmp_path, kind)
    assert done.stdout.count("exit code 2") == 2
    assert "Traceback" not in done.stderr
    assert "fault in regard" not in done.stderr
    assert done.stderr.count("regard: ") == 1
    assert told in done.stderr
    if kind != "alone":
        assert "bytes free" in done.stderr
    earlier = tmp_path / "earlier" if kind == "gone" else tmp_path / "run" / "checkpoints"
    newest = Checkpoints(earlier, ALONE).newest()
    assert newest is not None
    assert newest.name == "step-000002"
    assert [path.name for path in earlier.iterdir()] == ["step-000002"]


def test_a_process_that_is_killed_is_missed_in_words(tmp_path: Path) -> None:
    written(tmp_path, RUN.replace("evaluate = 8", "evaluate = 80"))
    done = launch(2, "spoil", tmp_path, "killed", codes=(0, -9))
    assert done.stdout.count("exit code 2") == 1
    assert "regard: another process of this run ended unexpectedly" in done.stderr
    assert "fault in regard" not in done.stderr
    newest = Checkpoints(tmp_path / "run" / "checkpoints", ALONE).newest()
    assert newest is not None
    assert newest.name == "step-000002"


def test_what_only_one_process_can_do_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    done = launch(2, "fill", tmp_path, "")
    assert done.stdout.count("exit code 2") == 2
    assert done.stderr.count("a task with a replay buffer supports only one process") == 1
    assert not (tmp_path / "run").exists()
    done = launch(1, "fill", tmp_path, "")
    assert done.stdout.count("exit code 0") == 1, done.stderr


@pytest.mark.slow
def test_torchrun_starts_them(tmp_path: Path, alone: Path) -> None:
    """As above, and when one is killed."""
    done = torchrun("curve", tmp_path, "fsdp")
    assert done.returncode == 0, done.stderr[-3000:]
    assert max(abs(a - b) for a, b in zip(losses(alone), losses(tmp_path), strict=True)) < 1e-5
    killed = tmp_path / "killed"
    written(killed, RUN.replace("evaluate = 8", "evaluate = 80"))
    done = torchrun("spoil", killed, "killed")
    assert done.returncode == 1  # torchrun's own
    assert "regard: another process of this run ended unexpectedly" in done.stderr


@pytest.mark.parametrize("process", ["0", "1"])
def test_only_the_first_process_speaks(
    process: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(place, "train.steps=2", "train.average=1")
    written(place, RUN + "unknown = 1\n", "wrong.toml")
    for code, *words in (
        (0, "check", "tiny.toml"),
        (0, "evaluate", str(folder), "--beam", "1"),
        (2, "train", "wrong.toml"),
        (2, "train", "wrong.toml", "--json"),
        (2, "resume", "nowhere"),
        (2, "check", "--unknown"),
    ):
        capsys.readouterr()
        monkeypatch.setenv("RANK", process)
        monkeypatch.setattr("regard.cli.app.several", lambda: True)  # though none of them joins the others here
        assert main([str(word) for word in words]) == code
        out, err = capsys.readouterr()
        assert bool(out + err) == (process == "0"), words


@pytest.mark.parametrize(("size", "told"), [("2", "without RANK, MASTER_ADDR, MASTER_PORT"), ("x", "WORLD_SIZE=x")])
def test_one_of_several_must_know_which(size: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(InputError, match="unset WORLD_SIZE") as found, join_world():
        pass
    assert told in str(found.value)
