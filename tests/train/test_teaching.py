"""Translators on the command line: vectors to start from, a teacher, an RNN, and what evaluate tells of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from regard.cli.app import main
from regard.folders import load
from regard.modalities.text.reversal import Reversal

RUN = """
folder = "{folder}/{name}"
[task]
kind = "translate"
[data]
kind = "pairs"
train = ["{folder}/pairs.tsv"]
test = ["{folder}/pairs.tsv"]
budget = 600
[data.vocabulary]
kind = "words"
size = 60
[model]
name = "transformer-small"
dim = 16
depth = 1
heads = 2
hidden = 24
[train]
steps = 4
log = 1
evaluate = 4
save = 2
threads = 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teaching")
    numbers = Reversal(60, 5, 0)
    (folder / "pairs.tsv").write_text("".join("\t".join(numbers[i]) + "\n" for i in range(60)))
    for name in ("teacher", "student"):
        (folder / f"{name}.toml").write_text(RUN.format(folder=folder, name=name))
    assert main(["train", str(folder / "teacher.toml")]) == 0
    return folder


def losses(folder: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def test_a_student_and_its_teacher(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"task.teacher={place / 'teacher'}", "task.share=0.5", "task.temperature=2.0", f"folder={place / 's'}"]
    assert main(["train", str(place / "student.toml"), *words]) == 0
    told = [line for line in "".join(capsys.readouterr()).splitlines() if re.match(r"step [\d,]+/", line)]
    assert told
    assert all(re.findall(r"\b(loss|teacher) \d", line) == ["loss", "teacher"] for line in told), told
    assert f"loss {losses(place / 's')[-1]['loss']:.4f}" in told[-1]  # as in the journal
    assert all("teacher" in line for line in losses(place / "s"))
    assert main(["resume", str(place / "s")]) == 0


def test_a_teacher_of_other_words(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"task.teacher={place / 'teacher'}", "data.vocabulary.size=10", f"folder={place / 'other'}"]
    assert main(["train", str(place / "student.toml"), *words]) == 2
    assert "different tokenizers" in capsys.readouterr().err
    assert not (place / "other").exists()


def test_vectors_to_start_from(place: Path) -> None:
    first = []
    for vectors in ("random", "word2vec", "word2vec"):
        folder = place / f"{vectors}{len(first)}"
        words = [f"data.vocabulary.vectors={vectors}", f"folder={folder}"]
        assert main(["train", str(place / "student.toml"), *words]) == 0
        first.append(losses(folder)[0]["loss"])
    assert first[0] != first[1] == first[2]


@pytest.mark.parametrize("feeding", ["task.given=0.5", "task.decay=10"])
def test_an_rnn_fed_with_its_own_words(feeding: str, place: Path) -> None:
    model = '{name = "rnn-luong", dim = 8, hidden = 8, depth = 1, align = 8}'
    words = [f"model={model}", feeding, f"folder={place / feeding}"]
    assert main(["train", str(place / "student.toml"), *words]) == 0
    assert len(losses(place / feeding)) == 4


def test_what_evaluate_tells(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(place / "teacher"), "--split", "test", "--beam", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == "the final model"
    assert 0 <= found["translated"]["bleu"] <= 100
    assert "tok:13a" in found["translated"]["signatures"]["bleu"]
    assert found["translated"]["sentences"] == 60
    assert sum(part["sentences"] for part in found["lengths"].values()) == 60
    assert main(["evaluate", str(place / "teacher"), "--split", "test", "--beam", "0"]) == 2
    assert "beams = 0 must be at least 1" in capsys.readouterr().err


def test_a_run_translates(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["translate", "-m", str(place / "teacher"), "one two three", "--beam", "2"]) == 0
    assert capsys.readouterr().out.endswith("\n")


@pytest.mark.parametrize("more", [0, 7])
def test_a_net_with_two_tables_has_as_many_words_as_the_vocabulary(more: int, place: Path, capsys: Any) -> None:
    """Not as many as in its paper; more, if asked for, and never fewer."""
    words = len(json.loads((place / "teacher" / "tokenizer.json").read_text())["model"]["vocab"])
    asked = f", target_vocab = {words + more}" if more else ""
    model = f'{{name = "rnn-luong", dim = 8, hidden = 8, depth = 1, align = 8{asked}}}'
    folder = place / f"two-{more}"
    assert main(["train", str(place / "student.toml"), f"model={model}", f"folder={folder}"]) == 0
    config = load(folder / "model").config
    assert (config.vocab, config.target_vocab) == (words, words + more)
    few = model.replace("}", ", target_vocab = 3}") if not more else model.replace(str(words + more), "3")
    capsys.readouterr()
    assert main(["train", str(place / "student.toml"), f"model={few}", f"folder={place / 'few'}"]) == 2
    assert "model.target_vocab is too small" in capsys.readouterr().err
