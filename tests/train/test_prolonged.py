"""A run that is prolonged, and the same command line again."""

import signal
from pathlib import Path

import pytest

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.run.settings import read_run
from tests.train.runs import RUN, contents, fingerprint, lines, refused, steps, trained, tree, written
from tests.train.verbs import interrupt


def test_a_prolonged_run_ends_as_one_that_was_longer_from_the_start(place: Path) -> None:
    longer = trained(place / "longer", "train.steps=28")
    run = trained(place / "run")
    assert main(["resume", str(run), "train.steps=28"]) == 0
    assert fingerprint(run, 28)["model.safetensors"] == fingerprint(longer, 28)["model.safetensors"]
    assert read_run(run / "run.toml").train.steps == 28
    assert steps(run)[-1] == 28


def test_settings_that_do_not_change_what_was_trained(place: Path) -> None:
    run = trained(place)
    changes = ["train.steps=24", "train.log=2", "train.evaluate=6", "train.save=2", "train.keep=1", "train.patience=9"]
    assert main(["resume", str(run), *changes]) == 0
    kept = read_run(run / "run.toml").train
    assert (kept.steps, kept.log, kept.evaluate, kept.save, kept.keep, kept.patience) == (24, 2, 6, 2, 1, 9)
    assert [line["step"] for line in lines(run) if "loss" in line][-2:] == [22, 24]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("optimizer.rate=0.1", "optimizer.rate: 0.005"),
        ("seed=3", "seed: 0"),
        ("model.dim=32", "model.dim: 16"),
        ("data.rows=300", "data.rows: 200"),
        ("train.clip=2.0", "train.clip: 1.0"),
        ("train.average=2", "train.average: 3"),
        ("optimizer=sgd", "optimizer.kind: 'adam'"),
        ("folder=elsewhere", "folder: "),
    ],
)
def test_other_settings_are_refused_by_name(
    change: str, told: str, place: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(finished)
    text = refused(capsys, "resume", str(finished), "train.steps=40", change)
    assert told in text
    assert "train.steps" in text.partition("expected")[2], "what can be changed is said"
    assert "start a new run" in text
    assert contents(finished) == before


def test_what_cannot_be_is_refused(place: Path, finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(finished)
    assert "step 20" in refused(capsys, "resume", str(finished), "train.steps=5")
    assert "unknown key; did you mean" in refused(capsys, "resume", str(finished), "train.step=50")
    assert "train.steps" in refused(capsys, "resume", str(finished), "steps=50")
    assert "not a run folder" in refused(capsys, "resume", str(place), "train.steps=50")
    assert contents(finished) == before


def test_steps_of_a_run_that_counts_epochs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(place, "train.epochs=2")
    two = steps(run)[-1]
    assert main(["train", str(place / "tiny.toml"), f"folder={run}", "train.epochs=2"]) == 0
    assert "train.epochs = 2.0 replaces train.steps" in refused(capsys, "resume", str(run), "train.steps=80")
    assert main(["resume", str(run), "train.epochs=3"]) == 0
    assert steps(run)[-1] == 3 * two // 2
    assert "epochs = 3" in (run / "run.toml").read_text()


def test_a_schedule_that_ends_with_the_run_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(place, "schedule=linear")
    capsys.readouterr()
    assert main(["resume", str(run), "train.steps=24"]) == 0
    assert "schedule 'linear' depends on train.steps" in capsys.readouterr().out
    assert main(["resume", str(trained(place / "other")), "train.steps=24"]) == 0
    assert "depends on train.steps" not in capsys.readouterr().out


def test_the_same_in_python(place: Path) -> None:
    run = trained(place)
    found = regard.resume(run, settings={"train.steps": 24, "train.patience": None}, progress=False)
    assert (found.step, found.finished) == (24, "all 24 steps are done")
    with pytest.raises(InputError, match=r"optimizer\.rate: 0\.005"):
        regard.resume(run, settings={"optimizer.rate": 0.1}, progress=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_MALLOC", "0")
        return trained(tmp_path_factory.mktemp("finished"))


# ----------------------------------------------------------------------------------------- the same command line again


def test_the_same_command_again_resumes(
    place: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(written(place)), "folder=run"]
    with monkeypatch.context() as patch:
        interrupt(patch, 9, signal.SIGTERM)
        assert main(words) == 130
    capsys.readouterr()
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "the folder already contains this run" in told
    assert "resuming after step 10" in told
    assert fingerprint(place / "run") == fingerprint(finished)
    before = fingerprint(place / "run")
    assert main(words) == 0
    assert f"all 20 steps are done; the model is in {place / 'run' / 'model'}" in capsys.readouterr().out
    assert fingerprint(place / "run") == before


def test_another_run_in_the_folder_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(place)
    before = tree(run)
    words = ["train", str(place / "tiny.toml"), f"folder={run}"]
    told = refused(capsys, *words, "seed=1", "optimizer.rate=0.1")
    assert "the folder already contains a run" in told
    assert "seed: 0 there, 1 here" in told
    assert "optimizer.rate: 0.005 there, 0.1 here" in told
    told = refused(capsys, *words, "train.steps=40")
    assert f"regard resume {run} train.steps=40" in told
    told = refused(capsys, *words, "train.steps=10")
    assert f"regard resume {run}; or" in told, "it cannot become shorter"
    assert tree(run) == before


def test_a_run_file_in_its_own_folder_is_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(place, f'folder = "{place}"\n' + RUN, "run.toml")
    assert "already contains a run" in refused(capsys, "train", str(path))
    assert tree(place) == {"run.toml"}


def test_again_in_python(place: Path) -> None:
    path = written(place)
    first = regard.train(path, folder=place / "run", progress=False)
    before = fingerprint(first.folder)
    again = regard.train(path, folder=place / "run", progress=False)
    assert (again.finished, again.model is not None) == (first.finished, True)
    assert fingerprint(again.folder) == before
