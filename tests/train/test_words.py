"""The field's words in run files and arguments: no aliases, but an error that names the key; epochs."""

import re
from pathlib import Path

import pytest

import regard
from regard.errors import InputError
from regard.nn.mechanisms import MECHANISMS
from regard.nn.synonyms import ATTENTION, MODEL, RUN
from regard.run.settings import RunSettings, read_run
from regard.run.templates import run_template
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
        ("batch_size=32", "data.budget"),
        ("train.early_stopping=true", "train.patience"),
        ("train.gradient_accumulation=4", "train.split"),
        ("ema=0.999", "train.moving"),
        ("warmup=100", "schedule.warmup"),
        ("optim.lr=1", "optimizer"),
        ("scheduler.warmup=1", "schedule"),
        ("lr_scheduler=cosine", "schedule"),
        ("gamma=0.9", "schedule"),
        ("lr_decay=0.9", "schedule"),
        ("warmup_ratio=0.1", "schedule.warmup"),
        ("lora=true", "start.learn"),
        ("optimizer.type=adam", "optimizer.kind"),
        ("schedule.type=cosine", "schedule.kind"),
        ("model.type=gpt", "model.name"),
        ("model.kind=gpt", "model.name"),
        ("data.max_length=8", "data.longest"),
        ("data.seq_len=8", "data.longest"),
        ("model.hidden_size=64", "dim"),
        ("model.num_layers=2", "depth"),
        ("model.num_heads=2", "heads"),
    ],
)
def test_a_word_of_the_field_names_the_key(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path), (line,))
    assert f"use {key} instead" in str(caught.value)


FORECAST = """
task.kind = "forecast"
data.kind = "waves"
model.name = "series-linear"
"""
IMAGES = """
task.kind = "classify"
data.kind = "digits"
model.name = "vit-tiny"
"""


@pytest.mark.parametrize(
    ("text", "line", "answer"),
    [
        (FORECAST, "prediction_length=8", "use data.horizon instead"),
        (FORECAST, "data.prediction_length=8", "use data.horizon instead"),
        (FORECAST, "horizon=8", "did you mean 'data.horizon'?"),
        (FORECAST, "data.lookback=8", "use data.window instead"),
        (FORECAST, "context_length=8", "use data.window instead"),  # not data.longest or model.length
        (FORECAST, "input_length=8", "use data.window instead"),
        (FORECAST, "data.input_size=8", "use data.window instead"),
        (FORECAST, "max_length=8", "use data.window instead"),
        (FORECAST, "freq=24", "use data.period instead"),
        (FORECAST, "data.seasonality=24", "use data.period instead"),
        (FORECAST, "batch_size=8", "use data.batch instead"),
        (
            FORECAST,
            "label_smoothing=0.1",
            "task 'forecast' has no such setting (other kinds have task.smoothing)",
        ),
        (FORECAST, "task.smoothing=0.1", "task 'forecast' has no such setting; valid keys are kind, quantiles"),
        (FORECAST, "num_heads=2", "model 'series-linear' has no such setting (other kinds have model.heads)"),
        (FORECAST, "dropout=0.1", "model 'series-linear' has no such setting (other kinds have model.dropout)"),
        (IMAGES, "tokenizer=bpe", "data 'digits' has no such setting (other kinds have data.vocabulary)"),
        (IMAGES, "data.input_size=8", "use data.size instead"),
        (IMAGES, "image_size=8", "use model.image instead"),
        (IMAGES, "train.dropout=0.1", "did you mean 'model.dropout'?"),
        (IMAGES, "dropout=0.1", "did you mean 'model.dropout'?"),
        (IMAGES, "momentum=0.9", "optimizer 'adamw' has no such setting (other kinds have optimizer.momentum)"),
        (IMAGES, "eps=1e-6", "did you mean 'optimizer.eps'?"),  # its table comes before the model's, which is free
        (IMAGES, "train.seed=1", "did you mean 'seed'?"),
        (IMAGES, "train.shuffle=true", "not needed: the training data is always shuffled"),
    ],
)
def test_the_key_is_one_that_this_run_file_has(tmp_path: Path, text: str, line: str, answer: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path, text), (line,))
    assert caught.value.what.endswith(f": unknown key; {answer}")


def test_the_key_fits_the_kinds_that_overrides_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"use data\.batch instead"):
        read_run(written(tmp_path, FORECAST.replace("waves", "reverse")), ("data.kind=waves", "batch_size=8"))
    with pytest.raises(InputError, match=r"did you mean 'optimizer\.momentum'"):
        read_run(written(tmp_path, FORECAST), ("optimizer=sgd", "momentum=0.9"))


@pytest.mark.parametrize(
    ("text", "task"),
    [
        (FORECAST, "forecast"),
        ('task = "forecast"\n', "forecast"),
        ('task.kind = "forecats"\n', "TASK"),
        ("task = [1]\n", "TASK"),
        ("task.kind = [1]\n", "TASK"),
        ("", "TASK"),
    ],
)
def test_the_fix_is_a_command_that_works(tmp_path: Path, text: str, task: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path, text), ("sede=1",))
    assert caught.value.fix == f"run `regard init {task}` to print a run file with every key explained"
    assert task == "TASK" or run_template(task)


def test_data_of_another_task_leaves_the_models_of_this_one(tmp_path: Path) -> None:
    text = 'task.kind = "forecast"\ndata.kind = "pairs"\ndata.train = ["a.tsv"]\nmodel.name = "gpt-tiny"\n'
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path, text))
    assert "data of kind 'pairs' cannot be used for the task 'forecast'" in caught.value.what
    assert "expected a forecaster or seriesrnn or serieslinear model" in caught.value.what


def test_in_python_too() -> None:
    with pytest.raises(InputError, match="use heads instead"):
        regard.build("gpt-tiny", num_heads=2)


def test_every_key_of_the_table_exists() -> None:
    known = {dotted(path) for path in every_key(RunSettings)}
    assert not [key for key in [*RUN, *(f"model.{key}" for key in MODEL)] if key not in known]


@pytest.mark.parametrize("word", ["flash", "sdpa", "full", "vanilla", "scaled_dot_product"])
def test_another_name_of_an_attention(tmp_path: Path, word: str) -> None:
    answer = f"unknown attention '{word}'; use softmax instead, which already uses the fused (flash) kernel"
    for choice in (word, f'["{word}", "softmax"]', f'{{kind = "{word}"}}'):
        with pytest.raises(InputError, match="use softmax instead, which"):
            read_run(written(tmp_path), (f"model.attention={choice}",))
    with pytest.raises(InputError) as caught:
        regard.build("gpt-tiny", attention=word)
    assert answer in caught.value.got


def test_no_other_name_of_an_attention_is_one() -> None:
    assert not [word for words in ATTENTION.values() for word in words if word in MECHANISMS]
    assert set(ATTENTION) <= set(MECHANISMS)


def test_the_glossary_has_both_columns() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    for key, words in [*RUN.items(), *MODEL.items(), *ATTENTION.items()]:
        (row,) = re.findall(rf"^\| `{re.escape(key)}` \|(.*)\|$", text, re.M)
        assert re.findall(r"`([^`]+)`", row) == list(words), key


def test_epochs_are_steps_of_this_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained(tmp_path, "train.epochs=2", "train.log=1")
    last = [line for line in Journal(folder).lines() if "loss" in line][-1]
    assert last["epoch"] == pytest.approx(2)
    run = read_run(folder / "run.toml")
    assert (run.train.epochs, run.train.steps) == (2, last["step"])
