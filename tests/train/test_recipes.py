"""Every recipe that ships: it opens with its command, its cost and its result, and its short variant learns."""

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli.app import main
from regard.run.settings import read_run
from regard.run.training import find_run

RECIPES = sorted(Path(str(x)) for x in files("regard").joinpath("recipes").iterdir() if x.name.endswith(".toml"))
DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
# One of each goal, the quickest; the others are for the slow tests. The detectors are: they are measured on hundreds of
# images, and tests/train/test_detection.py has a run of its own that learns.
QUICK = {"reverse", "shakespeare-dense", "digits", "tags-bert", "bert-reviews", "scenes", "forecast", "mnist-convgan"}
QUICK |= {"scenes-autoencoder"}


def by_speed(path: Path) -> Any:
    return pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)


def test_there_are_recipes() -> None:
    assert {"reverse", "digits", "mnist"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_what_it_costs_and_gives(path: Path) -> None:
    """Its command on the first line, then a line of its measured cost and one of its measured result."""
    opening = path.read_text("utf-8").split("\n\n")[0]
    assert opening.startswith(f"# regard train {path.stem}")
    assert re.search(r"^# Cost: .*\d", opening, re.MULTILINE), "no measured cost"
    assert re.search(r"^# Result: .*\d", opening, re.MULTILINE), "no measured result"
    run = read_run(path)
    assert run.smoke is not None
    assert run.smoke.factor < 1
    assert find_run(path.stem).samefile(path)


def test_every_goal_has_a_quick_one() -> None:
    goals = {path.stem: read_run(path).task.kind for path in RECIPES}
    assert {goals[name] for name in QUICK} == set(goals.values()) - {"detect"}


@pytest.mark.parametrize("path", [by_speed(path) for path in RECIPES])
def test_its_short_variant_learns(
    path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last training loss is below the first one by the factor that the recipe states; the model loads."""
    run = read_run(path)
    if run.data.kind not in ("reverse", "digits", "scenes", "scene-images", "shapes", "waves") and not DATA.is_dir():
        pytest.skip(f"the data of {path.stem} is not here: set REGARD_DATA (docs/data.md)")
    monkeypatch.setenv("REGARD_DATA", str(DATA))
    code = main(["train", path.stem, "--smoke", "folder=run"])
    said = capsys.readouterr()
    assert code == 0, said.out[-2000:] + said.err[-2000:]
    lines = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    if not losses:  # of several parts: what is measured first
        losses = [next(iter(line["held_out"].values())) for line in lines if "held_out" in line]
    assert run.smoke is not None
    assert losses[-1] < run.smoke.factor * losses[0]
    assert regard.load(place / "run" / "model").task == run.task.kind


def test_a_smoke_run_that_does_not_learn_fails(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check is part of the run: with a rate of almost nothing it ends with an error."""
    assert main(["train", "reverse", "--smoke", "folder=run", "optimizer.rate=1e-9", "train.steps=10"]) == 1
    assert "the loss does not decrease" in "".join(capsys.readouterr())
