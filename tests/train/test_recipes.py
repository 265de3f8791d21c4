"""Every recipe that ships: it opens with its command, its cost and its result, and its short variant learns."""

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import regard
from regard.run.settings import read_run
from regard.run.start import find_run

RECIPES = sorted(Path(str(x)) for x in files("regard").joinpath("recipes").iterdir() if x.name.endswith(".toml"))
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_CACHE": str(folder / "cache")}
    environment.setdefault("REGARD_DATA", str(DATA))
    words = (sys.executable, "-m", "regard", *words)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False)


def test_there_are_recipes() -> None:
    assert {"reverse", "mnist"} <= {path.stem for path in RECIPES}


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


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_short_variant_learns(path: Path, tmp_path: Path) -> None:
    """The last training loss is below the first one by the factor that the recipe states; the model loads."""
    run = read_run(path)
    if run.data.kind != "reverse" and "REGARD_DATA" not in os.environ and not DATA.is_dir():
        pytest.skip(f"the data of {path.stem} is not here: set REGARD_DATA (docs/data.md)")
    done = command("train", path.stem, "--smoke", "folder=run", folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert run.smoke is not None
    assert losses[-1] < run.smoke.factor * losses[0]
    assert regard.load(tmp_path / "run" / "model").task == run.task.kind


def test_a_smoke_run_that_does_not_learn_fails(tmp_path: Path) -> None:
    """The check is part of the run: with a rate of almost nothing it ends with an error."""
    done = command(
        "train", "reverse", "--smoke", "folder=run", "optimizer.rate=1e-9", "train.steps=10", folder=tmp_path
    )
    assert done.returncode == 1
    assert "learning is broken" in done.stderr + done.stdout
