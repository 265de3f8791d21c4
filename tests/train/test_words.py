"""The field's words in run files and arguments: no aliases, but an error that names the key; epochs."""

import re
from pathlib import Path

import pytest

import regard
from regard.errors import InputError
from regard.nn.synonyms import MODEL, RUN
from regard.run.settings import RunSettings, read_run
from regard.run.training import Journal
from regard.train.runfile import dotted, every_key
from tests.train.runs import trained, written

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("optimizer.lr=1e-3", "optimizer.rate"),
        ("learning_rate=1e-3", "optimizer.rate"),
        ("weight_decay=0.1", "optimizer.decay"),
        ("train.num_epochs=3", "train.epochs"),
        ("epochs=3", "train.epochs"),
        ("batch_size=32", "data.batch or data.budget"),
        ("train.early_stopping=true", "train.patience"),
        ("train.gradient_accumulation=4", "train.split"),
        ("ema=0.999", "train.moving"),
        ("warmup=100", "schedule.warmup"),
        ("model.hidden_size=64", "dim"),
        ("model.num_layers=2", "depth"),
        ("model.num_heads=2", "heads"),
    ],
)
def test_a_word_of_the_field_names_the_key(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path), (line,))
    assert f"use {key} instead" in str(caught.value)


def test_in_python_too() -> None:
    with pytest.raises(InputError, match="use heads instead"):
        regard.build("gpt-tiny", num_heads=2)


def test_every_key_of_the_table_exists() -> None:
    known = {dotted(path) for path in every_key(RunSettings)}
    assert not [key for key in RUN if key not in known | {"model.name"}]


def test_the_glossary_has_both_columns() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    for key, words in [*RUN.items(), *MODEL.items()]:
        (row,) = re.findall(rf"^\| `{re.escape(key)}` \|(.*)\|$", text, re.M)
        assert all(f"`{word}`" in row for word in words), key


def test_epochs_are_steps_of_this_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained(tmp_path, "train.epochs=2", "train.log=1")
    last = [line for line in Journal(folder).lines() if "loss" in line][-1]
    assert last["epoch"] == pytest.approx(2)
    run = read_run(folder / "run.toml")
    assert (run.train.epochs, run.train.steps) == (2, last["step"])
