"""A run that is not finished can be used: its best checkpoint so far."""

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.errors import InputError, Notice
from regard.run import training
from tests.train.runs import RUN, contents, lines, refused, steps, trained, written
from tests.train.verbs import interrupt


def stopped(place: Path, at: int, *changes: str, text: str = RUN) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, at, signal.SIGTERM)
        assert main(["train", str(written(place, text)), f"folder={place / 'run'}", *changes]) == 130
    return place / "run"


def table(run: Path, step: int, name: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(run / "checkpoints" / f"step-{step:06d}" / f"{name}.safetensors")


def same(model: regard.Model, weights: dict[str, torch.Tensor]) -> bool:
    state = model.state_dict()
    return state.keys() == weights.keys() and all(torch.equal(x, weights[name]) for name, x in state.items())


def test_the_best_checkpoint_so_far(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stopped(place, 17)
    assert not (run / "model").exists()
    with pytest.warns(Notice, match=r"is not finished: .*best checkpoint so far, step 16"):
        model = regard.load(run)
    assert (model.task, model.family) == ("translate", "transformer")
    assert same(model, table(run, 16, "net"))
    assert "step 16" in model.card
    capsys.readouterr()
    assert main(["translate", "-m", str(run), "a b"]) == 0
    assert "best checkpoint so far, step 16" in capsys.readouterr().err


def test_its_text_is_that_of_the_model_that_the_run_ends_with(place: Path) -> None:
    run = trained(place)
    wanted = regard.load(run / "model")
    shutil.rmtree(run / "model")
    with pytest.warns(Notice, match="has no model folder"):
        found = regard.load(run)
    assert found.config == wanted.config
    assert found.symbols == wanted.symbols
    assert found.text().to_bytes() == wanted.text().to_bytes()


def test_moving_averages_are_used_where_they_are_measured(place: Path) -> None:
    run = stopped(place, 17, "train.moving=0.9")
    with pytest.warns(Notice):
        model = regard.load(run)
    assert same(model, table(run, 16, "net.moving"))
    assert not same(model, table(run, 16, "net"))


def test_adapters_are_merged(place: Path) -> None:
    base = trained(place / "base")
    text = RUN.partition("[model]")[0] + f'[start]\nmodel = "{base}"\nlearn = "adapters"\nrank = 2\nalpha = 5.0\n'
    text += "[train]" + RUN.partition("[train]")[2]
    run = trained(place / "tuned", "train.average=1", "train.evaluate=20", text=text)
    wanted = regard.load(run / "model")
    shutil.rmtree(run / "model")
    with pytest.warns(Notice):
        assert same(regard.load(run), wanted.state_dict())


def test_a_damaged_best_one_is_passed_over(place: Path) -> None:
    run = stopped(place, 17)
    (run / "checkpoints" / "step-000016" / "net.safetensors").write_bytes(b"")
    with pytest.warns(Notice, match=r"latest checkpoint so far, step 18"):
        assert same(regard.load(run), table(run, 18, "net"))


def test_before_there_is_a_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "work", lambda *rest, **named: training.RunOutcome(place / "run", 0, ""))
    main(["train", str(written(place)), "folder=run"])
    assert (place / "run" / "run.toml").is_file()
    with pytest.raises(InputError, match="no checkpoint yet"):
        regard.load(place / "run")


def test_a_run_of_before_is_refused_by_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stopped(place, 17)
    shutil.rmtree(run / "blueprint")
    told = refused(capsys, "translate", "-m", str(run), "a b")
    assert "not finished" in told
    assert f"regard resume {run}" in told
    assert main(["resume", str(run)]) == 0
    assert regard.load(run).task == "translate"


def test_what_does_not_fit_is_refused(place: Path) -> None:
    run = stopped(place, 17)
    path = run / "blueprint" / "regard.json"
    data = json.loads(path.read_text())
    data["config"]["dim"] = 32
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="shape"):
        regard.load(run)
    (run / "blueprint" / "weights.json").write_text('{"part": "../../secret", "scale": null}')
    with pytest.raises(InputError, match=r"weights\.json"):
        regard.load(run)


def test_training_does_not_start_from_an_unfinished_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it starts from could not be had again."""
    base = stopped(place / "base", 17)
    text = RUN.partition("[model]")[0] + f'[start]\nmodel = "{base}"\n[train]' + RUN.partition("[train]")[2]
    told = refused(capsys, "train", str(written(place, text, "tuned.toml")))
    assert "not finished" in told


def test_a_prolonged_run_has_the_model_of_its_earlier_end(place: Path) -> None:
    run = trained(place)
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, 25, signal.SIGTERM)
        assert main(["resume", str(run), "train.steps=40"]) == 130
    before = contents(run / "model")
    with pytest.warns(Notice, match="was prolonged"):
        assert regard.load(run).state_dict().keys()
    assert contents(run / "model") == before
    assert steps(run)[-1] == 26
    assert lines(run)


@pytest.mark.parametrize("name", ["mine", "./mine", "tatoeba-en-de"])
def test_python_and_the_command_line_accept_the_same_names(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(place).rename(place / "mine")
    model = regard.load(name)
    assert main(["translate", "-m", name, "I like tea."]) == 0
    assert capsys.readouterr().out.strip()
    assert model.can("translate")


def test_an_unknown_name_is_refused_alike(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nowhere", "./nowhere"):
        with pytest.raises(InputError) as error:
            regard.load(name)
        assert str(error.value) in refused(capsys, "translate", "-m", name, "a")
