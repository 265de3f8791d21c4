"""regard train: what it writes, and that nothing else changes the numbers."""

import json
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.run.settings import read_run
from regard.train.checkpoint import find_damage
from regard.train.runfile_text import run_file_text
from regard.train.settings import Train
from tests.train.runs import fingerprint, lines, refused, steps, tree, written


def test_train_writes_all_of_it(whole: Path) -> None:
    assert {path.name for path in whole.iterdir()} == {
        "run.toml", "metrics.jsonl", "timing.jsonl", "curves.svg", "curves.png", "samples", "checkpoints", "model",
        "environment.json", "data.json", "tokenizer.json", "blueprint", ".lock",
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
    assert all(not find_damage(path) for path in (whole / "checkpoints").iterdir())
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
    assert named - table["train"].keys() == {
        "epochs",
        "patience",
        "moving",
    }  # they are none, for which TOML has no word
    assert table["train"]["clip"] == 1.0
    assert table["optimizer"]["betas"] == [0.9, 0.98]
    assert table["seed"] == 0
    assert re.search(r"^# patience = .* early stopping patience: evaluations without improvement", text, re.MULTILINE)
    none = replace(kept, train=replace(kept.train, clip=None, patience=3))
    assert read_run(written(whole.parent, run_file_text(none), "none.toml")) == none


def test_a_second_run_in_the_same_folder_is_refused(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(whole)
    told = refused(capsys, "train", str(whole.parent / "tiny.toml"), f"folder={whole}", "seed=1")
    assert f"regard resume {whole}" in told
    assert tree(whole) == before


def test_a_folder_with_other_files_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("precious")
    told = refused(capsys, "train", str(written(place)), "folder=mine")
    assert "is not a run folder" in told
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
