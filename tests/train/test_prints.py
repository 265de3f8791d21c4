"""What a run must notice before it goes on: other data, damaged checkpoints; and what it tells of its data."""

import json
import shutil
from pathlib import Path

import pytest

from regard.cli.app import main
from regard.data import fingerprints
from regard.data.fingerprints import fingerprint
from regard.modalities.text.reversal import Reversal
from regard.run.fingerprints import holds_run
from tests.train.test_teaching import RUN


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prints")
    numbers = Reversal(60, 5, 0)
    (folder / "pairs.tsv").write_text("".join("\t".join(numbers[i]) + "\n" for i in range(60)))
    (folder / "run.toml").write_text(RUN.format(folder=folder, name="run"))
    assert main(["train", str(folder / "run.toml"), "train.average=2", "train.evaluate=1"]) == 0
    return folder


@pytest.fixture
def place(done: Path, tmp_path: Path) -> Path:
    """The same run in a folder of its own, with its own data."""
    shutil.copytree(done, tmp_path / "run")
    folder = tmp_path / "run"
    for path in (folder / "run" / "run.toml", folder / "run" / "data.json", folder / "run.toml"):
        path.write_text(path.read_text().replace(str(done), str(folder)))
    return folder


@pytest.mark.parametrize("verb", ["resume", "evaluate"])
@pytest.mark.parametrize("change", ["cut", "turned", "edited"])
def test_other_data_is_refused(verb: str, change: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "pairs.tsv"
    lines = path.read_text().splitlines(keepends=True)
    other = {"cut": lines[:40], "turned": lines[::-1], "edited": [lines[0].replace("e", "x"), *lines[1:]]}[change]
    assert main([verb, str(place / "run")]) == 0
    path.write_text("".join(other))
    before = (place / "run" / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert main([verb, str(place / "run")]) == 2
    told = capsys.readouterr().err
    assert "the data has changed since the run started" in told
    assert str(path) in told
    assert (place / "run" / "metrics.jsonl").read_bytes() == before
    path.write_text("".join(lines))
    assert main([verb, str(place / "run")]) == 0


def test_a_print_of_a_large_file_and_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "WHOLE", 100)
    monkeypatch.setattr(fingerprints, "PIECE", 10)
    path = tmp_path / "large"
    path.write_bytes(b"a" * 5000)
    first = fingerprint(path)
    path.write_bytes(b"a" * 4999 + b"b")
    assert fingerprint(path) != first
    assert "pieces" in first
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").write_bytes(b"1")
    one = fingerprint(tmp_path / "images")
    (tmp_path / "images" / "cat" / "2.png").write_bytes(b"")
    assert fingerprint(tmp_path / "images") != one


def test_a_run_within_its_data_is_no_part_of_it(tmp_path: Path) -> None:
    """Images may lie beside runs/; a folder that only looks like one of a run is data."""
    (tmp_path / "a.png").write_bytes(b"pixels")
    before = fingerprint(tmp_path, holds_run)
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    for name in ("data.json", "run.toml", "metrics.jsonl"):
        (run / name).write_text("{}")
    assert fingerprint(tmp_path, holds_run) == before
    (run / "run.toml").unlink()
    assert fingerprint(tmp_path, holds_run) != before


@pytest.mark.parametrize("verb", ["resume", "evaluate"])
def test_when_every_checkpoint_is_damaged_nothing_is_touched(
    verb: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place / "run"
    shutil.rmtree(folder / "model")
    for path in (folder / "checkpoints").iterdir():
        (path / "net.safetensors").write_bytes(b"")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    capsys.readouterr()
    assert main([verb, str(folder)]) == 2
    assert "all checkpoints of the run are damaged" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"} == before


def test_evaluate_names_a_damaged_best_checkpoint(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = place / "run"
    shutil.rmtree(folder / "model")
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    (newest / "net.safetensors").write_bytes(b"")
    capsys.readouterr()
    assert main(["evaluate", str(folder)]) == 0
    assert "damaged and is skipped" in capsys.readouterr().err


def test_the_card_is_of_the_final_model(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = (done / "run" / "model" / "card.md").read_text()
    capsys.readouterr()
    assert main(["evaluate", str(done / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"Average of the last 2 checkpoints. On held-out data: loss {found['metrics']['loss']:.4g}" in card


def test_without_its_tokenizer_and_without_its_timings(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "run" / "timing.jsonl").unlink()
    assert main(["resume", str(place / "run")]) == 0
    (place / "run" / "tokenizer.json").unlink()
    assert main(["resume", str(place / "run")]) == 2
    assert "tokenizer file is missing" in capsys.readouterr().err


def test_another_environment_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "run" / "environment.json"
    shutil.rmtree(place / "run" / "model")
    for was, told in (({}, False), ({"torch": "1.0", "processes": 7}, True)):
        path.write_text(json.dumps(json.loads(path.read_text()) | was))
        capsys.readouterr()
        assert main(["resume", str(place / "run")]) == 0
        text = capsys.readouterr().out
        assert ("torch was 1.0 and is" in text) == ("processes was 7 and is 1" in text) == told


def test_what_is_cut_off_is_told(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data.longest=3", f"folder={tmp_path / 'cut'}"]
    assert main(["check", str(done / "run.toml"), *words]) == 0
    assert "truncated" in capsys.readouterr().out
    assert main(["train", str(done / "run.toml"), *words]) == 0
    assert "are truncated" in capsys.readouterr().out
    assert main(["check", str(done / "run.toml")]) == 0
    text = capsys.readouterr().out
    assert "truncated" not in text
    assert "the folder already contains a run" in text


def test_bad_rows_are_told(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text((done / "pairs.tsv").read_text() + "no tab\n")
    words = [f'data.train=["{bad}"]', "data.bad=0.1", f"folder={tmp_path / 'bad'}"]
    assert main(["train", str(done / "run.toml"), *words]) == 0
    assert "1 bad rows are skipped" in capsys.readouterr().out


def test_a_kind_that_is_there_already_keeps_its_settings(done: Path, tmp_path: Path) -> None:
    text = (done / "run.toml").read_text() + '[optimizer]\nkind = "adam"\nrate = 0.01\n'
    (tmp_path / "x.toml").write_text(text)
    for i, word in enumerate(("optimizer=adam", "optimizer.kind=adam", "optimizer=adamw")):
        assert main(["train", str(tmp_path / "x.toml"), word, f"folder={tmp_path / str(i)}"]) == 0
    rates = ["rate = 0.01 " in (tmp_path / str(i) / "run.toml").read_text() for i in range(3)]
    assert rates == [True, True, False]


@pytest.mark.parametrize("word", ["data.train=[]", "data.longest=1", "task.given=2.0", "task.temperature=0"])
def test_impossible_settings(word: str, done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(done / "run.toml"), word]) == 2
    told = capsys.readouterr().err
    assert "fault in regard" not in told
    assert word.split("=")[0].split(".")[1] in told
