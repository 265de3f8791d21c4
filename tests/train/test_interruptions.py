"""regard train, interrupted and resumed: as if it had never stopped."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from regard.cli.app import main
from regard.run import machine, training
from regard.train import stop
from regard.train.checkpoint import Checkpoints
from regard.train.distribution import ALONE
from regard.train.engine import Engine
from tests.forked import ended, forked
from tests.train.runs import STEPS, fingerprint, refused, steps, tree, written
from tests.train.verbs import interrupt, slowly


def test_control_c_and_resume(place: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real process: it ends the step at hand, says how to go on; and what is resumed ends as if undisturbed."""
    words, out = ["train", str(written(place)), "folder=run"], place / "out"
    process = forked(slowly, str(place), dict(os.environ), words, out=out, err=place / "err")
    metrics = place / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 4):  # three lines and an evaluation
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    assert ended(process, out) == 130
    told = re.search(
        r"stopped after step (\d+); the checkpoint is saved\. Resume with: regard resume (.*)", out.read_text("utf-8")
    )
    assert told is not None
    assert 9 <= int(told[1]) < STEPS
    assert told[2] == str(place / "run")
    assert steps(place / "run")[-1] == int(told[1])
    assert not (place / "run" / "model").exists()
    assert (place / "run" / "curves.svg").exists()
    assert main(["resume", told[2]]) == 0
    assert f"resuming after step {told[1]}" in capsys.readouterr().out
    assert fingerprint(place / "run") == fingerprint(whole)


@pytest.mark.parametrize("stop", [5, 14, 18])
def test_a_polite_kill_and_resume(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop: int
) -> None:
    """From another working directory. The checkpoint of the interruption is none of those that the model is made of."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        interrupt(patch, stop, signal.SIGTERM)
        assert main(["train", str(written(place)), "folder=run"]) == 130
    assert f"Resume with: regard resume {place / 'run'}" in capsys.readouterr().out
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert steps(place / "run")[-1] == stop + 1  # the step at hand was ended
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert main(["resume", "../run"]) == 0
    assert fingerprint(place / "run") == fingerprint(whole)


def test_a_second_control_c_ends_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not when it is an echo: of a Ctrl-C that a terminal sends to all processes, torchrun tells them again."""
    interrupt(monkeypatch, 14, signal.SIGINT, signal.SIGINT)
    assert main(["train", str(written(place)), "folder=echo"]) == 130
    assert steps(place / "echo") == [4, 8, 12, 15]
    monkeypatch.setattr(stop, "AGAIN", 0.0)
    assert main(["train", "tiny.toml", "folder=run"]) == 130
    assert steps(place / "run") == [4, 8, 12]


def test_a_signal_in_the_last_step_changes_nothing(place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, STEPS, signal.SIGINT)
    assert main(["train", str(written(place)), "folder=run"]) == 0
    assert fingerprint(place / "run") == fingerprint(whole)


def test_killed_before_the_first_checkpoint(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stop, "AGAIN", 0.0)
        interrupt(patch, 3, signal.SIGINT, signal.SIGINT)
        assert main(["train", str(written(place)), "folder=run"]) == 130
    assert main(["resume", "run"]) == 0
    assert "no checkpoint yet: starting at step 0" in capsys.readouterr().out
    assert fingerprint(place / "run") == fingerprint(whole)


def test_killed_before_the_model_was_written(place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint is there: resume makes the model of it, and no step more."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "finish", killed)
        assert main(["train", str(written(place)), "folder=run"]) == 130
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "update", killed)
        assert main(["resume", "run"]) == 0
    assert fingerprint(place / "run") == fingerprint(whole)


def test_a_damaged_checkpoint_is_passed_over(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch, 13, signal.SIGTERM)
        assert main(["train", str(written(place)), "folder=run"]) == 130
    newest = Checkpoints(place / "run" / "checkpoints", ALONE).newest()
    assert newest is not None
    (newest / "net.safetensors").write_bytes(b"rotten")
    assert main(["resume", "run"]) == 0
    told = capsys.readouterr().out
    assert f"{newest} is damaged and is skipped" in told
    assert "resuming after step 12" in told
    assert fingerprint(place / "run") == fingerprint(whole)


def test_resume_of_what_is_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "folder").mkdir()
    for name in ("folder", "nowhere"):
        told = refused(capsys, "resume", name)
        assert "not a run folder" in told
        assert name in told
    assert tree(place) == {"folder"}


def test_a_run_that_is_being_trained_is_locked(place: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fcntl

    with open(whole / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = refused(capsys, "resume", str(whole))
    assert "another process is training this run" in told
    assert str(whole) in told
    assert main(["resume", str(whole)]) == 0


def test_a_folder_that_is_read_only(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if Path(path).name == ".lock":
            raise OSError(30, "Read-only file system")
        return open(path, mode, *rest, **named)

    monkeypatch.setattr(machine, "open", read_only, raising=False)
    told = refused(capsys, "resume", str(whole))
    assert f"where: {whole}" in told
    assert "Read-only file system" in told


def test_a_full_disk_is_told(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At the samples: the path and the bytes are named, and the checkpoints before them are whole."""
    plain = Path.write_bytes

    def write_bytes(path: Path, raw: bytes) -> int:
        if path.parent.name == "samples":
            raise OSError(28, "No space left on device")
        return plain(path, raw)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    told = refused(capsys, "train", str(written(place)), "folder=run")
    assert str(place / "run" / "samples" / "step-000008.txt") in told
    assert re.search(r"No space left.*\d+ bytes free", told, re.DOTALL)
    assert steps(place / "run") == [4]
