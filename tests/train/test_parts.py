"""Tasks of several parts, and tasks that fill their own data, from the run file to the loaded model."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.cli.app import main
from regard.data.replay import Replay
from regard.errors import InputError
from regard.modalities.goals import GOALS
from regard.modalities.sources import SOURCES
from regard.run import training
from regard.run.settings import read_run
from regard.run.templates import run_template
from regard.train.optimizers import SGD, Adam
from regard.train.runfile import settings_of_part
from regard.train.schedules import ConstantSchedule, LinearSchedule
from regard.zoo import FAMILIES
from tests.train import toymodality
from tests.train.runs import contents, steps

CIRCLE = """\
task.kind = "circle"
data.kind = "ring"
model.name = "maker-tiny"
train = { steps = 12, evaluate = 4, save = 4, log = 2, average = 2 }

[optimizer]
kind = "adam"
rate = 1e-2

[optimizer.discriminator]
rate = 4e-2

[schedule]
kind = "constant"

[schedule.generator]
kind = "linear"
warmup = 3
"""


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES.rows, "maker", toymodality.FAMILY)
    monkeypatch.setitem(SOURCES.rows, "ring", toymodality.SOURCE)
    monkeypatch.setitem(GOALS.rows, "circle", toymodality.CIRCLE)
    monkeypatch.setitem(GOALS.rows, "walk", toymodality.WALK)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(text)
    return path


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def trained(tmp_path: Path, text: str, name: str, *words: str) -> Path:
    assert main(["train", str(written(tmp_path, text)), f"folder={tmp_path / name}", *words]) == 0
    return tmp_path / name


def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, at: int, *words: str) -> Path:
    """In the middle of a step, after which the last checkpoint is some steps old."""
    original = training.Engine.update

    def dying(self: Any, step: int, *rest: Any) -> Any:
        if step == at:
            raise KeyboardInterrupt
        return original(self, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.Engine, "update", dying)
        main(["train", str(written(tmp_path, text)), f"folder={tmp_path / 'killed'}", *words])
    return tmp_path / "killed"


def killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, at: int, *words: str) -> Path:
    folder = killed(tmp_path, monkeypatch, text, at, *words)
    assert main(["resume", str(folder)]) == 0
    return folder


def test_each_part_has_its_rate_and_its_schedule(tmp_path: Path) -> None:
    folder = trained(tmp_path, CIRCLE, "run")
    lines = [line for line in training.Journal(folder).lines() if "generator.rate" in line]
    assert [line["discriminator.rate"] for line in lines] == pytest.approx([4e-2] * 6)
    assert lines[0]["generator.rate"] == pytest.approx(1e-2 * 2 / 3 * (1 - 0), rel=0.2)
    assert lines[-1]["generator.rate"] < lines[1]["generator.rate"]
    again = read_run(folder / "run.toml")
    assert again.optimizer.own["discriminator"].rate == 4e-2
    assert again.optimizer.usual.rate == 1e-2


def test_the_kept_part_is_the_model(tmp_path: Path) -> None:
    folder = trained(tmp_path, CIRCLE, "run")
    model = regard.load(folder)
    assert model.family == "maker"
    assert model.net(torch.zeros(3, 2)).shape == (3, 2)
    assert "On held-out data: distance" in model.card


def test_it_is_evaluated_and_resumed_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder = trained(tmp_path, CIRCLE, "run")
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert '"distance"' in capsys.readouterr().out
    assert weights(killed_and_resumed(tmp_path, monkeypatch, CIRCLE, 6)) == weights(folder)


def test_moving_averages_of_a_gan_are_kept(tmp_path: Path) -> None:
    plain, moving = (
        trained(tmp_path, CIRCLE, name, *words) for name, words in (("a", ()), ("b", ("train.moving=0.9",)))
    )
    assert weights(plain) != weights(moving)


def test_start_gives_a_part_frozen_weights(tmp_path: Path) -> None:
    first = trained(tmp_path, CIRCLE, "first")
    text = f'{CIRCLE}\n[start]\nmodel = "{first}"\npart = "encoder"\n'
    second = trained(tmp_path, text, "second")
    assert weights(second) != weights(first)
    assert weights(first) == weights(trained(tmp_path, CIRCLE, "third"))  # nothing of it was written


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CIRCLE + "\n[optimizer.critic]\nrate = 1\n", "optimizer.critic: the task does not have this part"),
        (CIRCLE + '\n[start]\nmodel = "x"\npart = "decoder"\n', "start.part"),
        (CIRCLE + '\n[start]\nmodel = "x"\npart = "encoder"\nlearn = "head"\n', "start.learn: not allowed with"),
        (CIRCLE + "\n[optimizer.generator]\nspeed = 1\n", "optimizer.generator.speed: unknown key"),
    ],
)
def test_parts_that_are_none_are_refused(tmp_path: Path, text: str, told: str, capsys: Any) -> None:
    assert main(["train", str(written(tmp_path, text))]) == 2
    assert told in capsys.readouterr().err


def test_the_tables_of_parts_are_those_of_the_document(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    (tables,) = re.findall(r"```toml\n(\[optimizer\]\n.*?)```", document, re.DOTALL)
    run = read_run(written(tmp_path, CIRCLE.partition("[optimizer]")[0] + tables), ("optimizer.generator.kind=sgd",))
    assert settings_of_part(run.optimizer, "discriminator") == Adam(rate=0.0001)
    assert settings_of_part(run.optimizer, "encoder") == Adam(rate=0.0002)
    assert settings_of_part(run.optimizer, "generator") == SGD()
    assert settings_of_part(run.schedule, "generator") == LinearSchedule(warmup=500)
    assert settings_of_part(run.schedule, "discriminator") == ConstantSchedule()


def test_a_task_fills_its_data_and_is_resumed_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run_template("walk")
    folder = trained(tmp_path, text, "run")
    rows = np.fromfile(folder / "replay" / "place.rows", np.float32).reshape(-1, 2)
    assert len(rows) == 48
    assert len(np.unique(rows, axis=0)) == 48  # it went somewhere
    again = killed_and_resumed(tmp_path, monkeypatch, text, 6)
    assert weights(again) == weights(folder)
    for name in ("place", "noise"):
        assert (again / "replay" / f"{name}.rows").read_bytes() == (folder / "replay" / f"{name}.rows").read_bytes()


def evaluated(folder: Path, capsys: Any) -> str:
    """Which weights were measured, once it is seen that nothing in the folder has changed."""
    before = contents(folder)
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert contents(folder) == before
    return str(json.loads(capsys.readouterr().out)["weights"])


@pytest.mark.parametrize("kind", ["walk", "circle"])
def test_evaluation_only_reads_an_interrupted_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, kind: str
) -> None:
    text = run_template(kind)
    words = ("train.evaluate=1", "train.save=2", "optimizer.rate=0.1")  # such that it becomes worse again
    folder = trained(tmp_path, text, "run", *words)
    again = killed(tmp_path, monkeypatch, text, 11, *words)
    best = min(steps(again))
    assert best < max(steps(again)) == 10
    assert evaluated(again, capsys) == f"the best checkpoint so far, step {best}"
    assert main(["resume", str(again)]) == 0
    assert weights(again) == weights(folder)


@pytest.mark.parametrize("kind", ["walk", "circle"])
def test_evaluation_only_reads_a_run_that_is_prolonged(tmp_path: Path, capsys: Any, kind: str) -> None:
    text = run_template(kind)
    words = ("train.evaluate=1", "optimizer.rate=0.1")
    one, two = (trained(tmp_path, text, name, *words) for name in ("one", "two"))
    assert evaluated(two, capsys) == "the final model"
    for folder in (one, two):
        (folder / "run.toml").write_text((folder / "run.toml").read_text().replace("steps = 12", "steps = 16"))
    assert evaluated(two, capsys) == f"the best checkpoint so far, step {min(steps(two))}"
    assert min(steps(two)) < 12
    for folder in (one, two):
        assert main(["resume", str(folder)]) == 0
    assert weights(one) == weights(two)
    assert steps(one)[-1] == 16


def test_a_run_is_evaluated_while_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Rows behind the last checkpoint are there, and the next batch is drawn from them."""
    text = run_template("walk")
    folder = trained(tmp_path, text, "run")
    original, told = training.Engine.update, []

    def watched(self: Any, step: int, *rest: Any) -> Any:
        if step in (5, 7, 11) and self.folder.name == "watched":
            told.append(evaluated(self.folder, capsys))
        return original(self, step, *rest)

    monkeypatch.setattr(training.Engine, "update", watched)
    again = trained(tmp_path, text, "watched")
    assert told == ["the best checkpoint so far, step 4"] * 3
    assert weights(again) == weights(folder)


def test_a_run_that_fills_its_data_can_be_checked(tmp_path: Path, capsys: Any) -> None:
    assert main(["check", str(written(tmp_path, run_template("walk"))), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"].keys() == {"train", "held_out"}
    assert main(["check", str(tmp_path / "toy.toml")]) == 0
    told = capsys.readouterr().out
    assert "held_out    16 rows in 1 batch\n" in told
    assert "maker-tiny, 82 parameters" in told


def test_lost_rows_are_told(tmp_path: Path, capsys: Any) -> None:
    folder = trained(tmp_path, run_template("walk"), "run")
    (folder / "replay" / "noise.rows").write_bytes(b"1234")
    assert main(["resume", str(folder)]) == 2
    assert "the replay buffer is missing rows" in capsys.readouterr().err


def test_a_memory_refuses_other_rows(tmp_path: Path) -> None:
    memory = Replay({"x": ("float32", (2,))}, dict, batch=4, room=3, seed=0)
    memory.attach(tmp_path)
    with pytest.raises(InputError, match="empty"):
        memory.rows(0)
    with pytest.raises(InputError, match="shape"):
        memory.append([{"x": np.zeros(3)}])
    with pytest.raises(InputError, match="fields"):
        memory.append([{"y": np.zeros(2)}])
    memory.append([{"x": np.full(2, i)} for i in range(10)])
    drawn = memory.rows(5)
    assert set(drawn.tolist()) <= {7, 8, 9}  # of the last that there is room for
    assert drawn.tolist() == memory.rows(5).tolist()
    assert memory.read(drawn)["x"][:, 0].tolist() == [float(i) for i in drawn]
