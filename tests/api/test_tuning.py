"""A search over settings and seeds: one table, one picture, and it goes on where it was."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard
from regard.api.training import History, TrainingResult
from regard.api.tuning import Trial, TuningResult, combinations, trial_of
from regard.errors import InputError
from tests.api.test_training import ROWS, SETTINGS, SMALL

VALUES = {"optimizer.rate": [1e-5, 1e-2], "data.budget": [48]}


def search(folder: Path, **named: Any) -> TuningResult:
    usual = {"values": VALUES, "seeds": 2, "model": SMALL, "settings": SETTINGS, "progress": False, "folder": folder}
    return regard.tune("classify", ROWS, **usual | named)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TuningResult:
    return search(tmp_path_factory.mktemp("search") / "found")


def test_all_combinations_from_all_seeds(found: TuningResult) -> None:
    assert [(trial.values["optimizer.rate"], trial.seed) for trial in found.trials] == [
        (1e-5, 0),
        (1e-5, 1),
        (1e-2, 0),
        (1e-2, 1),
    ]
    assert (found.metric, found.highest) == ("accuracy", True)
    for trial in found.trials:
        history = [json.loads(line) for line in (Path(trial.folder) / "metrics.jsonl").read_text().splitlines()]
        reached = [line["held_out"]["accuracy"] for line in history if "held_out" in line]
        assert trial.metrics["accuracy"] == max(reached)
        assert "rate = " in (Path(trial.folder) / "run.toml").read_text()


def test_one_table_and_one_picture(found: TuningResult) -> None:
    data = json.loads((found.folder / "trials.json").read_text())
    assert [Trial(**trial) for trial in data["trials"]] == list(found.trials)
    assert Image.open(found.folder / "trials.png").width == 1200
    means = [mean for _, mean, _ in found.means()]
    assert means == sorted(means, reverse=True)
    assert found.best == found.means()[0][0]
    assert "optimizer.rate = 0.01" in found.table()
    assert len(repr(found)) < 400


def test_of_equal_evaluations_the_one_with_the_lesser_loss_counts(found: TuningResult) -> None:
    """As checkpoints are chosen."""
    lines = [
        {"step": 1, "held_out": {"accuracy": 0.5, "loss": 2.0}},
        {"step": 2, "held_out": {"accuracy": 0.5, "loss": 1.0}},
    ]
    ended = TrainingResult(None, History(lines), found.folder, 2, "done", "-accuracy")
    assert trial_of({}, 0, ended, "accuracy").step == 2
    trials = tuple(Trial({"x": x}, 0, "", {"accuracy": 0.5, "loss": loss}) for x, loss in ((1, 2.0), (2, 1.0)))
    assert TuningResult(trials, "accuracy", True, found.folder).best == {"x": 2}


def test_what_has_ended_is_not_trained_again(found: TuningResult, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in found.folder.glob("trials/*/metrics.jsonl")}
    again = search(found.folder, progress=True)
    assert capsys.readouterr().out.count("taken from") == 4
    assert again.trials == found.trials
    assert {path: path.stat().st_mtime_ns for path in found.folder.glob("trials/*/metrics.jsonl")} == before


def test_another_metric_and_a_trial_that_fails(tmp_path: Path) -> None:
    values = {"optimizer.rate": [1e-3, 1e30]}
    settings = SETTINGS | {"optimizer.kind": "sgd", "train.clip": "none"}
    ended = search(tmp_path / "search", values=values, seeds=[5], settings=settings, metric="loss")
    assert not ended.highest
    assert ended.best == {"optimizer.rate": 1e-3}
    assert "not finite" in ended.trials[1].failed or "non-finite" in ended.trials[1].failed
    assert "failed" in ended.table()


def test_what_is_wrong_with_all_of_them_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"optimizer\.rat: unknown key"):
        search(tmp_path / "search", values={"optimizer.rat": [1.0]})
    with pytest.raises(InputError, match="no values to try"):
        search(tmp_path / "search", values={"optimizer.rate": []})


def test_some_are_drawn_the_same_each_time() -> None:
    values = {"a": range(10), "b": range(10)}
    some = combinations(values, 7)
    assert len(some) == 7
    assert some == combinations(values, 7)
    assert len(combinations(values, None)) == 100
