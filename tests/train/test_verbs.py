"""The verbs that train, as a user types them: what they write, what they refuse, and how they are interrupted."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.data.batches import Batches
from regard.data.order import Order
from regard.nn.feedforward import MLP
from regard.run import start
from regard.run.settings import read_run
from regard.run.sources import found
from regard.run.start import find_run, not_learned, usual_threads
from regard.run.templates import TEMPLATES
from regard.run.trial import heaviest
from regard.train import stop
from regard.train.checkpoint import Checkpoints, damage
from regard.train.distribution import ALONE
from regard.train.engine import Engine
from regard.train.runtext import write
from regard.train.settings import Train
from tests.train.runs import RUN, STEPS, fingerprint, lines, refused, steps, trained, tree, written

PAIRS = """
[task]
kind = "translate"
[data]
kind = "pairs"
train = ["pairs.tsv"]
share = 0.1
budget = 300
vocabulary = {kind = "words", size = 50}
[model]
name = "transformer-small"
dim = 16
depth = 1
heads = 2
hidden = 32
[train]
steps = 10
log = 5
evaluate = 5
save = 5
threads = 1
"""


def pairs(bad: int = 0, count: int = 300) -> str:
    """Rows of a tsv; some have one column too few."""
    numbers = np.random.default_rng(0).integers(0, 9, (count, 4))
    rows = [" ".join(f"w{i}" for i in row) for row in numbers]
    return "".join(f"{row}\n" if i % 20 == 7 and i // 20 < bad else f"{row}\t{row}\n" for i, row in enumerate(rows))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed, with curves."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_MALLOC", "0")
        folder = trained(tmp_path_factory.mktemp("whole"))
    torch.set_num_threads(threads)
    return folder


# ------------------------------------------------------------------------------------------------------ what is written


def test_train_writes_all_of_it(whole: Path) -> None:
    assert {path.name for path in whole.iterdir()} == {
        "run.toml", "metrics.jsonl", "timing.jsonl", "curves.svg", "curves.png", "samples", "checkpoints", "model",
        "environment.json", "data.json", "tokenizer.json", ".lock",
    }  # fmt: skip
    metrics = lines(whole)
    assert [line["step"] for line in metrics if "loss" in line] == [3, 6, 9, 12, 15, 18, 20]
    assert [line["step"] for line in metrics if "held_out" in line] == [8, 16, 20]
    assert metrics[0].keys() == {"step", "epoch", "loss", "norm", "rate"}
    assert metrics[0]["rate"] == pytest.approx(5e-3 * 3 / 5)
    assert metrics[-1]["held_out"]["loss"] < metrics[0]["loss"]
    assert lines(whole, "timing")[-1].keys() == {"step", "seconds_per_step", "per_second", "elapsed", "memory"}
    assert sorted(path.name for path in (whole / "samples").iterdir()) == [f"step-0000{n}.txt" for n in ("08", 16, 20)]
    assert "target   " in (whole / "samples" / "step-000008.txt").read_text()
    assert steps(whole) == [12, 16, 20]
    assert all(not damage(path) for path in (whole / "checkpoints").iterdir())
    environment = json.loads((whole / "environment.json").read_text())
    assert environment["regard"] == regard.__version__
    assert environment["torch"] == torch.__version__
    assert environment["processes"] == 1
    model = regard.load(whole / "model")
    assert (model.task, model.family, model.config.vocab) == ("translate", "transformer", 14)
    assert (whole / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (whole / "curves.svg").read_bytes()[:1000]
    assert "Seed 0, 20 steps: all 20 steps are done." in (whole / "model" / "card.md").read_text()
    assert model.text().to_bytes() == (whole / "tokenizer.json").read_bytes()


def test_the_run_file_is_kept_in_full(whole: Path) -> None:
    """Every key of every table, each with its value; read again, it is the same run."""
    given, kept = read_run(whole.parent / "tiny.toml"), read_run(whole / "run.toml")
    assert kept == replace(given, folder=str(whole))
    text = (whole / "run.toml").read_text()
    table = tomllib.loads(text)
    named = {one.name for one in fields(Train)}
    assert named - table["train"].keys() == {"patience", "moving"}  # they are none, for which TOML has no word
    assert table["train"]["clip"] == 1.0
    assert table["optimizer"]["betas"] == [0.9, 0.98]
    assert table["seed"] == 0
    assert re.search(r"^# patience = .* stop after so many evaluations", text, re.MULTILINE)
    none = replace(kept, train=replace(kept.train, clip=None, patience=3))
    assert read_run(written(whole.parent, write(none), "none.toml")) == none


def test_a_second_run_in_the_same_folder_is_refused(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(whole)
    told = refused(capsys, "train", str(whole.parent / "tiny.toml"), f"folder={whole}", "seed=1")
    assert f"regard resume {whole}" in told
    assert tree(whole) == before


def test_a_folder_with_other_files_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("precious")
    told = refused(capsys, "train", str(written(place)), "folder=mine")
    assert "files that are no run" in told
    assert tree(place) == {"mine", "mine/thesis.txt", "tiny.toml"}
    (place / "empty").mkdir()  # an empty one is welcome
    assert main(["train", "tiny.toml", "folder=empty", "train.steps=1"]) == 0


def test_a_finished_run_says_so(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = fingerprint(whole)
    assert main(["resume", str(whole)]) == 0
    assert f"all 20 steps are done; the model is in {whole / 'model'}" in capsys.readouterr().out
    assert fingerprint(whole) == before


def test_json_is_lines_of_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(written(place)), "--json", "train.steps=4"]) == 0
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    happened = [event for event in events if event["event"] not in ("step", "note")]
    assert [event["event"] for event in happened] == ["evaluated", "saved", "finished"]
    assert events[0]["step"] == 1
    assert events[0]["saved_age"] is None  # nothing is saved yet
    evaluated, saved, finished = happened
    assert lines(place / "runs" / "tiny")[-1]["held_out"] == evaluated["held_out"]
    assert (evaluated["step"], evaluated["best"]) == (4, True)
    assert evaluated["sample"]
    assert Path(saved["path"]).is_dir()
    assert finished["why"] == "all 4 steps are done"
    assert Path(finished["model"]).is_dir()
    assert place.joinpath("runs", "tiny", "model").is_dir()  # where it goes unless told otherwise
    told = refused(capsys, "train", "tiny.toml", "--json")
    (line,) = told.splitlines()  # an error is a line too
    assert "already" in json.loads(line)["error"]["what"]


# ------------------------------------------------------------------------------------------------------- interruptions

SLOW = """
import sys, time
from regard.train.engine import Engine
from regard.cli.app import main
plain = Engine.update
def slow(self, step, *rest):
    time.sleep(0.5 if step >= 9 else 0)  # so that it can be interrupted before its end
    return plain(self, step, *rest)
Engine.update = slow
sys.exit(main(sys.argv[1:]))
"""


def test_control_c_and_resume(place: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real process: it ends the step at hand, says how to go on; and what is resumed ends as if undisturbed."""
    words = ["train", str(written(place)), "folder=run"]
    with subprocess.Popen([sys.executable, "-c", SLOW, *words], stdout=subprocess.PIPE, text=True) as process:
        metrics = place / "run" / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 4):  # three lines and an evaluation
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    told = re.search(r"stopped after step (\d+), nothing is lost\. Go on with: regard resume (.*)", out)
    assert told is not None
    assert 9 <= int(told[1]) < STEPS
    assert told[2] == str(place / "run")
    assert steps(place / "run")[-1] == int(told[1])
    assert not (place / "run" / "model").exists()
    assert (place / "run" / "curves.svg").exists()
    assert main(["resume", told[2]]) == 0
    assert f"going on after step {told[1]}" in capsys.readouterr().out
    assert fingerprint(place / "run") == fingerprint(whole)


def interrupt(monkeypatch: pytest.MonkeyPatch, at: int, *numbers: signal.Signals) -> None:
    """Signals to this very process, after so many steps."""
    plain = Engine.collect

    def collect(self: Engine, update: Any) -> None:
        plain(self, update)
        if update.step + 1 == at:
            for number in numbers:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(Engine, "collect", collect)


@pytest.mark.parametrize("stop", [5, 14, 18])
def test_a_polite_kill_and_resume(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop: int
) -> None:
    """From another working directory. The checkpoint of the interruption is none of those that the model is made of."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        interrupt(patch, stop, signal.SIGTERM)
        assert main(["train", str(written(place)), "folder=run"]) == 130
    assert f"Go on with: regard resume {place / 'run'}" in capsys.readouterr().out
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
        patch.setattr(start, "finish", killed)
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
    assert f"{newest} is damaged and passed over" in told
    assert "going on after step 12" in told
    assert fingerprint(place / "run") == fingerprint(whole)


def test_resume_of_what_is_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "folder").mkdir()
    for name in ("folder", "nowhere"):
        told = refused(capsys, "resume", name)
        assert "no run's folder" in told
        assert name in told
    assert tree(place) == {"folder"}


def test_a_run_that_is_being_trained_is_locked(place: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fcntl

    with open(whole / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = refused(capsys, "resume", str(whole))
    assert "another process trains this run" in told
    assert str(whole) in told
    assert main(["resume", str(whole)]) == 0


def test_a_folder_that_is_read_only(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if Path(path).name == ".lock":
            raise OSError(30, "Read-only file system")
        return open(path, mode, *rest, **named)

    monkeypatch.setattr(start, "open", read_only, raising=False)
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


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("steps = 20", "stepps = 20", "tiny.toml:LINE: train.stepps: unknown key; did you mean 'steps'?"),
        ("steps = 20", 'steps = "many"', "tiny.toml:LINE: train.steps: 'many' is not a whole number"),
        ("steps = 20", "steps = 0", "tiny.toml:LINE: train: steps = 0 is not at least 1"),
        ("dim = 16", "dimm = 16", "tiny.toml:LINE: model.dimm: unknown key 'dimm'; did you mean 'dim'?"),
        ("dim = 16", "dim = true", "tiny.toml:LINE: model.dim: dim = True is not a whole number"),
        ("dim = 16", "dim = 15", "tiny.toml:LINE: model.dim: dim = 15 is not a multiple of heads = 2"),
        (
            "dim = 16",
            'dim = 16\nattention = "local-p"',
            "tiny.toml:LINE: model.attention: attention 'local-p'",
        ),
        ("dropout = 0.1", "dropout = 1.5", "tiny.toml:LINE: model.dropout: dropout = 1.5 is not a share"),
        ('"transformer-small"', '"transformer-smal"', "tiny.toml:LINE: model.name: no model is called"),
        ('"reverse"', '"reserve"', "tiny.toml:LINE: data.kind: 'reserve' is not one of"),
        ("longest = 5", "longest = 1", "tiny.toml:LINE: data: longest = 1 is not at least 2"),
        ('kind = "translate"', 'kind = "classify"', "cannot serve the task 'classify', which takes 'images'"),
        ("threads = 1", "threads = 1\npatience = 0", "tiny.toml:LINE: train: patience = 0"),
        ("\n[task]", "seed = -1\n[task]", "tiny.toml:1: seed = -1 is not at least 0"),
        ('"adam"', '"adafactor"\n[train.x]', "train.x: unknown key"),
        ("[task]", "[task", "tiny.toml:LINE: this is no TOML"),
    ],
)
def test_a_wrong_run_file(place: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str) -> None:
    """The file, the line, the key and the nearest one; nothing is written."""
    assert RUN.count(old) == 1
    text = RUN.replace(old, new)
    line = 1 + text[: text.index(new) + len(new)].count("\n")
    assert told.replace("LINE", str(line)) in refused(capsys, "train", written(place, text).name)
    assert tree(place) == {"tiny.toml"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("train.stpes=5", "override train.stpes=5: train.stpes: unknown key; did you mean 'steps'?"),
        ("train.steps=five", "train.steps: 'five' is not a whole number"),
        ("train.steps", "this is not key=value"),
        ("model.heads=3", "model.dim: dim = 16 is not a multiple of heads = 3"),
        ("model.vocab=5", "model.vocab is too small"),
        ("model={name='gpt-tiny'}", "a gpt cannot translate"),
        ("train.precision=float16", "'float16' is not one of 'float32', 'bfloat16'"),
        ("train.device=cuda", "there is no GPU that PyTorch can use"),
    ],
)
def test_a_wrong_override(place: Path, capsys: pytest.CaptureFixture[str], change: str, told: str) -> None:
    assert not torch.cuda.is_available() or "cuda" not in change
    for verb in ("train", "check"):
        assert told in refused(capsys, verb, str(written(place)), change)
    assert tree(place) == {"tiny.toml"}


def test_what_cannot_be_sharded_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("optimizer=adafactor", "train.distribution=fsdp")
    assert "'adafactor' cannot be sharded" in refused(capsys, "train", str(written(place)), *changes)


def test_run_files_that_are_no_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "wide.toml").write_text(RUN, "utf-16")
    assert "wide.toml:1: this is not UTF-8 text" in refused(capsys, "train", "wide.toml")
    (place / "marked.toml").write_text(RUN, "utf-8-sig")
    assert read_run(place / "marked.toml") == read_run(written(place))
    assert "there is no such run file" in refused(capsys, "train", "gone.toml")
    told = refused(capsys, "train", "revers")
    assert "no recipe has this name" in told
    assert "reverse" in told


def test_a_folder_does_not_hide_a_recipe(place: Path) -> None:
    (place / "reverse").mkdir()
    assert find_run("reverse").name == "reverse.toml"
    assert find_run("reverse").is_file()


# ----------------------------------------------------------------------------------------------------------------- data


def test_missing_data(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It says where it looked: beside the run file, here, and where REGARD_DATA points."""
    path = written(place / "files", PAIRS)
    told = refused(capsys, "train", str(path))
    assert f"{place / 'files' / 'pairs.tsv'} or {place / 'pairs.tsv'}" in told
    assert "REGARD_DATA, the folder that holds your data, is not set" in told
    (place / "data").mkdir()
    monkeypatch.setenv("REGARD_DATA", str(place / "data"))
    assert str(place / "data" / "pairs.tsv") in refused(capsys, "train", str(path))
    for folder in ("data", ".", "files"):  # the nearest one is taken
        (place / folder / "pairs.tsv").write_text(pairs())
        assert found("pairs.tsv", path.parent) == (place / folder / "pairs.tsv").resolve()
    assert found(str(place / "pairs.tsv"), path.parent) == place / "pairs.tsv"


def test_too_many_bad_rows(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of a hundred stop it before the first step, each with its file and line, and no folder is made."""
    path = written(place, PAIRS)
    (place / "pairs.tsv").write_text(pairs(bad=6))
    for verb in ("train", "check"):
        told = refused(capsys, verb, str(path))
        assert "6 bad of 300 rows (2.00%)" in told
        for line in (8, 28, 48, 68, 88, 108):
            assert f"{place / 'pairs.tsv'}:{line}: 1 columns instead of 2" in told
    assert tree(place) == {"tiny.toml", "pairs.tsv"}
    assert main(["train", str(path), "data.bad=0.02", "folder=run", "train.steps=1"]) == 0


def test_a_few_bad_rows_are_listed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "pairs.tsv").write_text(pairs(bad=2))
    assert main(["check", str(written(place, PAIRS))]) == 0
    told = capsys.readouterr().out
    assert "bad rows    2 left out" in told
    assert "pairs.tsv:28: 1 columns instead of 2" in told
    assert main(["train", "tiny.toml", "folder=run"]) == 0
    listed = (place / "run" / "faults.txt").read_text().splitlines()
    assert listed == [f"{place / 'pairs.tsv'}:{line}: 1 columns instead of 2" for line in (8, 28)]


def test_a_packed_file_gives_the_same_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a tokenizer that is given, which is that of the other run."""
    (place / "pairs.tsv").write_text(pairs())
    with gzip.open(place / "pairs.tsv.gz", "wt") as file:
        file.write(pairs())
    path = written(place, PAIRS)
    assert main(["train", str(path), "folder=plain"]) == 0
    given = "data.vocabulary.file=plain/tokenizer.json"
    assert main(["train", str(path), "folder=packed", 'data.train=["pairs.tsv.gz"]', given]) == 0
    assert fingerprint(place / "plain", 10) == fingerprint(place / "packed", 10)
    kept = read_run(place / "packed" / "run.toml")
    assert kept.data.train == (str(place / "pairs.tsv.gz"),)  # whatever folder it is resumed from
    assert "this run has no test data" in refused(capsys, "evaluate", "plain", "--split", "test")


def test_a_number_that_is_none(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layer and the lines of the batch are named, and the checkpoint of before is whole and can be resumed."""
    (place / "pairs.tsv").write_text(pairs())
    calls = iter(range(10**6))
    plain = MLP.forward

    def poisoned(self: MLP, x: torch.Tensor) -> torch.Tensor:
        y = plain(self, x)
        return y / 0 if self.training and next(calls) >= 14 else y  # two in a step: that of the encoder, in step 7

    with monkeypatch.context() as patch:
        patch.setattr(MLP, "forward", poisoned)
        told = refused(capsys, "train", str(written(place, PAIRS)), "folder=run")
    assert "step 7: a number is not finite, first in the output of encoder.0.ffn (MLP)" in told
    assert re.search(rf"batch of step 7: {re.escape(str(place / 'pairs.tsv'))}:\d+, ", told)
    assert "loss = nan" in told
    assert steps(place / "run") == [5]
    assert not damage(place / "run" / "checkpoints" / "step-000005")
    assert main(["resume", "run"]) == 0
    assert steps(place / "run") == [5, 10]


# ------------------------------------------------------------------------------------------------ evaluate, check, init


def test_evaluate(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The final model: on held-out data it gives what its card says."""

    def measured(*words: str) -> dict[str, float]:
        capsys.readouterr()
        assert main(["evaluate", str(whole), "--json", *words]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["split"] == (words[1] if words else "held_out")
        return told["metrics"]

    before = tree(whole)
    best = measured()
    assert measured("--split", "held_out") == best
    assert f"On held-out data: loss {best['loss']:.4g}" in (whole / "model" / "card.md").read_text()
    assert measured("--split", "test") != best
    assert measured("--split", "train").keys() == {"loss", "perplexity", "accuracy"}
    told = refused(capsys, "evaluate", str(whole), "--split", "tests")
    assert "no tests data" in told
    assert "train, held_out, test" in told
    assert main(["evaluate", str(whole)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[:2] == ["weights\tthe final model", f"loss\t{best['loss']:.6g}"]
    assert tree(whole) == before


def test_evaluate_takes_the_best_and_not_the_last(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a rate that ruins it after its first step. Where the best is damaged, the newest has to do."""
    folder = trained(place, "train.evaluate=1", "optimizer.rate=1.0", "schedule=constant", "model.dropout=0", "seed=3")
    measured = {line["step"]: line["held_out"]["loss"] for line in lines(folder) if "held_out" in line}
    best = min(measured, key=lambda step: measured[step])
    assert best < STEPS
    assert best in steps(folder)
    shutil.rmtree(folder / "model")  # as if it were not finished
    for step in (best, STEPS):
        capsys.readouterr()
        assert main(["evaluate", str(folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metrics"]["loss"] == measured[step]
        (folder / "checkpoints" / f"step-{best:06d}" / "net.safetensors").write_bytes(b"")


def test_evaluate_before_there_is_anything(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stop, "AGAIN", 0.0)
        interrupt(patch, 2, signal.SIGINT, signal.SIGINT)
        main(["train", str(written(place)), "folder=run"])
    assert "no checkpoint yet" in refused(capsys, "evaluate", "run")


def test_check_tells_and_writes_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place)
    assert main(["check", "tiny.toml"]) == 0
    told = capsys.readouterr().out
    for wanted in (
        r"task        translate, in runs/tiny",
        r"train       200 rows in \d+ batches",
        r"held_out    200 rows in \d+ batches",
        r"bad rows    none",
        r"model       transformer-small, 5\.\dk parameters",
        r"batch       source \d+ x \d+, given \d+ x \d+, wanted \d+ x \d+, keys \d+ x \d+",
        r"memory      [\d.]+ [MG]B",
        r"time        \d+\.\d+ s a step, \d+:\d+ an epoch, \d+:\d+ in all",
    ):
        assert re.search(wanted, told), wanted
    assert main(["check", "tiny.toml", "--json", "train.split=3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["splits"]["train"]["rows"] == 200
    assert report["seconds_in_all"] == pytest.approx(20 * report["seconds_per_step"])
    assert report["seconds_per_epoch"] == pytest.approx(
        report["splits"]["train"]["batches"] * report["seconds_per_step"]
    )
    assert report["bad_rows"] == 0
    assert tree(place) == {"tiny.toml"}


def test_check_tries_the_batch_with_the_longest_rows(place: Path) -> None:
    train = prepared(place).sources.splits["train"]
    assert max(train.source.lengths[row, 0] for row in train.rows(heaviest(train))) == 5
    assert min(train.source.lengths[:, 0]) == 2


def test_check_tries_no_batch_that_is_left_over() -> None:
    """Nine rows in batches of four: the longest stands alone, and costs less than four that are nearly as long."""
    for lengths in (np.arange(10, 19), None):
        rows = SimpleNamespace(lengths=lengths)
        for seed in range(5):
            train = Batches(rows, Order(9, lengths, rows=4, seed=seed), list)  # type: ignore[arg-type]
            assert len(train.rows(heaviest(train))) == 4


def initial(task: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["init", task]) == 0
    return capsys.readouterr().out


SMALL = ["train.steps=2", "model.dim=16", "model.depth=1", "model.heads=2", "model.hidden=32", "train.threads=1"]


@pytest.mark.parametrize("task", TEMPLATES)
def test_init_gives_a_run_file(place: Path, capsys: pytest.CaptureFixture[str], task: str) -> None:
    text = initial(task, capsys)
    assert read_run(written(place, text, "run.toml")) == TEMPLATES[task]
    table = tomllib.loads(text)
    told = ("\n{} = ", "\n# {} = ", "\n[train.{}]")
    assert all(any(form.format(name) in text for form in told) for name in table["train"])
    assert main(["init", task, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"].rstrip("\n") == text.rstrip("\n")
    assert "did you mean 'translate'" in refused(capsys, "init", "translation")


def test_init_translate_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place, initial("translate", capsys), "run.toml")
    (place / "pairs.tsv").write_text(pairs())
    assert main(["train", "run.toml", *SMALL, "data.vocabulary.size=300"]) == 0
    assert regard.load(place / "runs" / "run" / "model").config.vocab <= 300


def test_init_language_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are longer than the model can read are cut."""
    written(place, initial("language", capsys), "run.toml")
    (place / "text.txt").write_text(
        "".join(f"{row} and so on, and on\n" for row in pairs(count=100).split("\n") if row)
    )
    changes = ["data.vocabulary.kind=characters", "model.length=12", "data.share=0.1"]
    assert main(["train", "run.toml", *SMALL, *changes]) == 0
    model = regard.load(place / "runs" / "run" / "model")
    assert (model.family, model.config.length) == ("gpt", 12)


def images(folder: Path, size: int = 8) -> None:
    numbers = np.random.default_rng(0)
    for label in ("dark", "light"):
        (folder / label).mkdir(parents=True)
        for i in range(12):
            pixels = numbers.integers(0, 100, (size, size), np.uint8) + (0 if label == "dark" else 150)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{i}.png")


def test_init_classify_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place, initial("classify", capsys), "run.toml")
    images(place / "images")
    changes = [*SMALL, "model.image=8", "data.share=0.2"]
    assert main(["train", "run.toml", *changes]) == 0
    model = regard.load(place / "runs" / "run" / "model")
    assert model.config.classes == 2
    sample = (place / "runs" / "run" / "samples" / "step-000002.txt").read_text()
    assert re.match(r"label -> guess: (dark|light) -> (dark|light)", sample)
    assert "accuracy" in lines(place / "runs" / "run")[-1]["held_out"]
    assert "model.classes is too small" in refused(capsys, "train", "run.toml", *changes, "model.classes=1", "folder=b")


def test_images_are_read_at_the_models_size(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where only its name says what that is."""
    images(place / "images", 40)
    text = (
        '[task]\nkind = "classify"\n[data]\nkind = "images"\ntrain = "images"\nbatch = 4\n[model]\nname = "vit-cifar"\n'
    )
    assert main(["check", str(written(place, text)), "--json", *SMALL]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"] == {"inputs": [4, 3, 32, 32], "labels": [4]}


def test_a_perceptron_learns_images_too(place: Path) -> None:
    images(place / "images", 40)
    text = (
        '[task]\nkind = "classify"\n[data]\nkind = "images"\ntrain = "images"\nbatch = 4\n[model]\nname = "mlp-mnist"\n'
    )
    steps = [word for word in SMALL if not word.startswith("model.")]
    assert main(["train", str(written(place, text)), *steps, "folder=run"]) == 0
    model = regard.load(place / "run" / "model")
    assert model.family == "mlp"
    assert (model.config.classes, model.config.image) == (2, 28)


# ------------------------------------------------------------------------------------------------------------- settings


def test_half_the_width(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused where it would only be emulated; where it is not, used: the numbers are others, but not by much."""
    written(place)
    monkeypatch.setattr(start, "half_width_on_cpu", lambda: False)
    told = refused(capsys, "train", "tiny.toml", "train.precision=bfloat16")
    assert "cannot compute in bfloat16" in told
    assert "train.precision=float32" in told
    assert tree(place) == {"tiny.toml"}
    monkeypatch.setattr(start, "half_width_on_cpu", lambda: True)
    found = []
    for precision in ("float32", "bfloat16"):
        assert main(["train", "tiny.toml", f"train.precision={precision}", f"folder={precision}", "train.steps=4"]) == 0
        found.append(lines(place / precision)[-1]["held_out"]["loss"])
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], rel=0.02)
    assert {x.dtype for x in regard.load(place / "bfloat16" / "model").parameters()} == {torch.float32}


def test_what_must_not_change_the_numbers(place: Path) -> None:
    """Recomputing activations, and splitting a batch: the same metrics to 1e-6 without dropout."""
    written(place)
    found: list[list[dict[str, Any]]] = []
    for i, change in enumerate(("train.split=1", "train.recompute=true", "train.split=3")):
        assert main(["train", "tiny.toml", change, f"folder=run{i}", "model.dropout=0.0"]) == 0
        found.append(lines(place / f"run{i}"))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            flat = {**one, **one.get("held_out", {})}
            assert flat.keys() == {**two, **two.get("held_out", {})}.keys()
            for name, value in {**two, **two.get("held_out", {})}.items():
                assert name == "held_out" or value == pytest.approx(flat[name], rel=1e-6, abs=1e-6), name


def test_a_seed_is_a_run_and_another_is_another(place: Path, whole: Path) -> None:
    assert fingerprint(trained(place / "same")) == fingerprint(whole)
    other = fingerprint(trained(place / "other", "seed=1"))
    assert other["metrics.jsonl"] != fingerprint(whole)["metrics.jsonl"]


def prepared(place: Path) -> start.Job:
    run = read_run(written(place))
    data = start.opened(run, place)
    return start.prepare(run, place / "x", data, start.vocabulary_of(run, data.splits["train"], place))


def test_the_weights_follow_from_the_seed_alone(place: Path) -> None:
    """Not from the random numbers that were drawn before."""
    one = prepared(place).model.net.embed.weight
    torch.rand(7)
    assert torch.equal(one, prepared(place).model.net.embed.weight)


def test_only_what_is_trained_on_is_shuffled(place: Path) -> None:
    splits = prepared(place).sources.splits
    for name, split in splits.items():
        epochs = [[tuple(split.rows(step + i * len(split))) for step in range(len(split))] for i in (0, 1)]
        assert (epochs[0] != epochs[1]) == (name == "train")
        assert sorted(row for batch in epochs[1] for row in batch) == list(range(200))


def test_early_stopping_ends_a_run(place: Path) -> None:
    """A rate of nothing brings nothing better: after the first evaluation and two more it is finished, with a model."""
    folder = trained(place, "train.patience=2", "train.evaluate=2", "optimizer.rate=1e-30")
    assert lines(folder)[-1]["step"] == 6
    assert (folder / "model").is_dir()
    assert "2 evaluations brought nothing better than step 2" in (folder / "model" / "card.md").read_text()


def test_more_steps_go_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finished run whose run file is given more steps is trained on, and its model replaced."""
    folder = trained(place, "train.steps=8")
    old = (folder / "model" / "model.safetensors").read_bytes()
    path = folder / "run.toml"
    path.write_text(path.read_text().replace("steps = 8 ", "steps = 12 "))
    assert main(["resume", str(folder)]) == 0
    assert "going on after step 8" in capsys.readouterr().out
    assert steps(folder)[-1] == 12
    assert (folder / "model" / "model.safetensors").read_bytes() != old
    path.write_text(path.read_text().replace("steps = 12 ", "steps = 10 "))  # and fewer are done already
    assert main(["resume", str(folder)]) == 0
    assert "all 10 steps are done" in capsys.readouterr().out


def test_a_model_in_half_the_space(place: Path, whole: Path) -> None:
    """The same numbers, rounded; the card speaks of the rounded ones, and the model computes in float32."""
    folder = trained(place, "train.stored=float16")
    small, large = folder / "model" / "model.safetensors", whole / "model" / "model.safetensors"
    assert small.stat().st_size < 0.6 * large.stat().st_size
    one, two = (regard.load(x / "model").state_dict() for x in (folder, whole))
    for name, x in two.items():
        assert one[name].dtype == torch.float32
        assert torch.equal(one[name], x.half().float()), name
    assert "held-out data" in (folder / "model" / "card.md").read_text()


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OMP_NUM_THREADS says, or all; of many processes each has its share, since torchrun sets that to 1."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usual_threads() == torch.get_num_threads()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert usual_threads() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert usual_threads() == 1
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert usual_threads() == 8


def test_smoke(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own changes, then those of the command line. When it is interrupted, nobody asks whether it has learned."""
    assert "no [smoke] table" in refused(capsys, "train", str(written(place)), "--smoke")
    text = RUN + '[smoke]\nset = ["train.steps=6", "train.log=2"]\nfactor = 0.99\n'
    assert main(["train", str(written(place, text)), "--smoke", "folder=a", "train.log=1"]) == 0
    assert [line["step"] for line in lines(place / "a") if "loss" in line] == [1, 2, 3, 4, 5, 6]
    for _ in range(2):  # in a place of its own, again and again
        assert main(["train", "tiny.toml", "--smoke", "train.log=1"]) == 0
    assert {path.name for path in (place / "runs").iterdir()} == {"tiny-smoke"}
    told = refused(capsys, "train", "tiny.toml", "--smoke", "folder=b", "smoke.factor=0.01", code=1)
    assert re.search(r"learning is broken: the loss went from [\d.]+ to [\d.]+, not below 0.01 of it", told)
    assert "1 lines of metrics" in refused(capsys, "train", "tiny.toml", "--smoke", "folder=c", "train.log=9", code=1)
    interrupt(monkeypatch, 1, signal.SIGTERM)
    assert main(["train", "tiny.toml", "--smoke", "folder=d", "train.log=9"]) == 130
    assert "learning" not in capsys.readouterr().out


def test_not_learned(tmp_path: Path) -> None:
    def judged(*losses: float) -> str:
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"loss": loss}) + "\n" for loss in losses))
        return not_learned(tmp_path, 0.5)

    assert judged(4.0, 9.0, 1.9) == ""
    assert "learning is broken" in judged(4.0, 1.0, 2.0)
    assert "cannot be judged by 1 lines" in judged(4.0)
    (tmp_path / "metrics.jsonl").write_text('{"loss": 4.0}\n{"held_out": {"loss": 0.1}}\n{"loss": null}\n')
    assert not_learned(tmp_path, 0.5)


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.train.progress import reporter

    monkeypatch.setenv("RANK", "1")
    reporter(False).note("twice")
    monkeypatch.setenv("RANK", "0")
    reporter(False).note("once")
    assert capsys.readouterr().out == "once\n"


def test_doctor_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) in (0, 1)
    told = capsys.readouterr().out
    assert torch.__version__ in told
    assert tree(place) == set()
