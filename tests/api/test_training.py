"""`regard.train` is the run of the command line: the same folder, the same bits; and it can be watched and stopped."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.model import Model

ROWS = [(f"the {one} sees a {other}", one) for one in ("dog", "cat", "bird") for other in ("fish", "dog", "cat", "owl")]
SMALL = {"name": "bert-tiny", "length": 16, "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
SETTINGS = {
    "train.steps": 6,
    "train.log": 2,
    "train.evaluate": 3,
    "train.save": 3,
    "train.threads": 1,
    "data.budget": 64,
    "data.share": 0.25,
    "data.vocabulary": {"kind": "words", "size": 64},
}
FILE = """
[task]
kind = "classify"

[data]
kind = "labelled"
train = ["rows.tsv"]
budget = 64
share = 0.25
vocabulary = {kind = "words", size = 64}

[model]
name = "bert-tiny"
length = 16
dim = 16
depth = 1
heads = 2
hidden = 16

[train]
steps = 6
log = 2
evaluate = 3
save = 3
threads = 1
"""


def train(folder: Path, data: Any = ROWS, **named: Any) -> Any:
    return regard.train(
        "classify", data, folder=folder, **{"model": SMALL, "settings": SETTINGS, "progress": False} | named
    )


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("ended") / "run")


def run_file(folder: Path) -> Path:
    (folder / "rows.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in ROWS))
    (folder / "run.toml").write_text(FILE)
    return folder / "run.toml"


def digests(folder: Path) -> dict[str, str]:
    """Of the weights and of everything that seed and step determine."""
    files = ["model/model.safetensors", "model/tokenizer.json", "tokenizer.json", "metrics.jsonl"]
    files += [str(path.relative_to(folder)) for path in sorted(folder.glob("checkpoints/*/*.safetensors"))]
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}


def test_the_same_bits_as_the_command_line(tmp_path: Path, ended: Any) -> None:
    """A run file by the command line and in Python, a dict, and rows in memory."""
    path = run_file(tmp_path)
    assert main(["train", str(path), f"folder={tmp_path / 'one'}"]) == 0
    regard.train(path, folder=tmp_path / "two", progress=False)
    tables = {"task": "classify", "model": SMALL, "data": {"kind": "labelled", "train": [str(tmp_path / "rows.tsv")]}}
    regard.train(tables, folder=tmp_path / "three", settings=SETTINGS, progress=False)
    wanted = digests(tmp_path / "one")
    assert len(wanted) > 4
    assert digests(tmp_path / "two") == wanted
    assert digests(tmp_path / "three") == wanted
    assert digests(ended.folder) == wanted


def test_files_of_a_run_file_are_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever Python runs; a folder of images has no ending by which it would be known."""
    (tmp_path / "file").mkdir()
    path = run_file(tmp_path / "file")
    (tmp_path / "rows.tsv").write_text("another\tfile\n")
    monkeypatch.chdir(tmp_path)
    assert regard.check(path).splits["train"].rows == 9
    for i in range(8):
        (tmp_path / "file" / "pixels" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 30 * i).save(tmp_path / "file" / "pixels" / "ab"[i % 2] / f"{i}.png")
    images = 'task = "classify"\n[data]\nkind = "images"\ntrain = "pixels"\nshare = 0.25\n[model]\nname = "vit-tiny"\n'
    sizes = "image = 8\npatch = 4\nchannels = 1\ndim = 16\ndepth = 1\nheads = 2\nhidden = 16\n"
    (tmp_path / "file" / "images.toml").write_text(images + sizes)
    assert regard.check(tmp_path / "file" / "images.toml").splits["train"].rows == 6


def test_what_it_returns(ended: Any) -> None:
    assert isinstance(ended.model, Model)
    assert ended.model.labels == ("bird", "cat", "dog")
    assert (ended.step, ended.finished) == (6, "all 6 steps are done")
    assert [step for step, _ in ended.history.curve("loss")] == [2, 4, 6]
    assert [step for step, _ in ended.history.curve("held_out.accuracy")] == [3, 6]
    assert ended.metrics["accuracy"] == ended.history.curve("held_out.accuracy")[-1][1]
    with pytest.raises(InputError, match=r"no such metric(.|\n)*held_out.accuracy"):
        ended.history.curve("bleu")


def test_reprs_are_short(ended: Any) -> None:
    looked = ended.model.look("the dog sees a cat")
    for one in (ended, ended.history, ended.model, looked, ended.model.classify("the dog sees a cat")):
        assert len(repr(one)) < 400, type(one)


def test_it_evaluates_as_the_command_line(ended: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = regard.evaluate(ended)
    assert main(["evaluate", str(ended.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(found.metrics)
    assert regard.evaluate(ended.folder, "held_out").metrics == found.metrics


def test_check_leaves_nothing(tmp_path: Path) -> None:
    report = regard.check("classify", ROWS, model=SMALL, settings=SETTINGS, folder=tmp_path / "run")
    assert (report.task, report.splits["train"].rows, report.labels) == ("classify", 9, ["bird", "cat", "dog"])
    assert not (tmp_path / "run").exists()


def test_callbacks_are_told_what_happens(tmp_path: Path) -> None:
    found: list[regard.TrainingEvent] = []
    callbacks = {name: found.append for name in ("step", "evaluated", "saved", "finished")}
    train(tmp_path / "run", callbacks=callbacks)
    assert [event.step for event in found if event.name == "step"] == [1, 2, 3, 4, 5, 6]
    evaluated = [event for event in found if event.name == "evaluated"]
    assert [event.step for event in evaluated] == [3, 6]
    assert evaluated[0].metrics.keys() >= {"loss", "accuracy"}
    assert evaluated[0].best is True
    saved = [event.path for event in found if event.name == "saved"]
    assert saved[-1] == tmp_path / "run" / "checkpoints" / "step-000006" or saved[-1] is not None
    assert [event.path for event in found if event.name == "finished"] == [tmp_path / "run"]
    assert all(event.steps == 6 for event in found)


@pytest.mark.parametrize(("event", "step"), [("step", 2), ("evaluated", 3), ("saved", 3)])
def test_a_callback_stops_a_run_which_can_be_resumed(event: str, step: int, tmp_path: Path, ended: Any) -> None:
    def stop(event: regard.TrainingEvent) -> None:
        if event.step == step:
            raise regard.StopTraining

    stopped = train(tmp_path / "run", callbacks={event: stop})
    assert (stopped.model, stopped.step, stopped.finished) == (None, step, "")
    assert "regard.resume" in repr(stopped)
    whole = regard.resume(tmp_path / "run", progress=False)
    assert digests(whole.folder)["model/model.safetensors"] == digests(ended.folder)["model/model.safetensors"]
    assert whole.history.lines == ended.history.lines


def test_another_exception_of_a_callback_is_the_callers(tmp_path: Path) -> None:
    def fail(event: regard.TrainingEvent) -> None:
        if event.step == 4:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        train(tmp_path / "run", callbacks={"step": fail})
    assert regard.resume(tmp_path / "run", progress=False).finished


def test_the_callers_random_numbers_and_threads_stay(tmp_path: Path) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    train(tmp_path / "run")
    assert torch.equal(torch.rand(2), wanted)
    assert torch.get_num_threads() == threads


def test_what_is_wrong_is_said_and_nothing_is_left(tmp_path: Path, ended: Any) -> None:
    with pytest.raises(InputError, match=r"train\.step: unknown key; did you mean"):
        train(tmp_path / "run", settings=SETTINGS | {"train.step": 3})
    with pytest.raises(InputError, match="all texts have the same label"):
        train(tmp_path / "run", [("a", "x"), ("b", "x")] * 5)
    with pytest.raises(InputError, match=r"unknown event of a callback: 'evaluate'.*'evaluated'"):
        train(tmp_path / "run", callbacks={"evaluate": print})
    with pytest.raises(InputError, match=r"no task(.|\n)*classify"):
        regard.train(data=ROWS, folder=tmp_path / "run")
    with pytest.raises(InputError, match="the folder is not empty"):
        train(ended.folder)
    with pytest.raises(
        TypeError, match=r"train\(\) has no argument 'learning_rate': use settings={'optimizer.rate': ...}"
    ):
        regard.train("classify", ROWS, learning_rate=0.1)  # type: ignore[call-arg]
    assert not (tmp_path / "run").exists()


def test_only_what_works_is_advised() -> None:
    """A run that has begun takes few settings, and an evaluation none."""
    with pytest.raises(TypeError) as caught:
        regard.resume("run", learning_rate=0.1, epochs=2)  # type: ignore[call-arg]
    assert str(caught.value).splitlines() == [
        "resume() has no argument 'learning_rate': a run that has begun keeps optimizer.rate; train a new run to "
        "change it",
        "resume() has no argument 'epochs': use settings={'train.epochs': ...}",
    ]
    with pytest.raises(TypeError, match=r"evaluate\(\) has no argument 'dataset': use data=\.\.\.$"):
        regard.evaluate("run", dataset=[])  # type: ignore[call-arg]


def test_the_package_of_the_loop_is_the_function_too() -> None:
    import importlib
    import inspect

    package = importlib.import_module("regard.train")
    assert callable(package)
    assert inspect.signature(package) == inspect.signature(regard.api.training.train)
