"""The field's words in run files and arguments: no aliases, but an error that names the key; epochs."""

import re
import tomllib
from pathlib import Path

import pytest

import regard
from regard.errors import InputError, RunFileError
from regard.modalities.goals import GOALS
from regard.nn.config import MOST_PROBLEMS
from regard.nn.mechanisms import MECHANISMS
from regard.nn.synonyms import ACTIVATION_SYNONYMS, ARGUMENT_SYNONYMS, ATTENTION_SYNONYMS, MODEL_SYNONYMS
from regard.run.settings import RunSettings, read_run
from regard.run.templates import run_template
from regard.run.training import Journal
from regard.train.runfile import dotted, every_key
from regard.train.runfile_synonyms import NEEDLESS_WORDS, RUN_SYNONYMS, VALUE_SYNONYMS
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
        ("model.ff_dim=64", "hidden"),
        ("model.mlp_ratio=4", "hidden"),
        ("model.norm_eps=1e-6", "eps"),
        ("optimizer.generator.lr=1", "optimizer.generator.rate"),
        ("optimizer.generator.weight_decay=1", "optimizer.generator.decay"),
        ("adam_epsilon=1e-8", "optimizer.eps"),
        ("epsilon=1e-8", "optimizer.eps"),
        ("data.batch=8", "data.budget"),
        ("batch=8", "data.budget"),
        ("train.batch=8", "data.budget"),
        ("truncation=8", "data.longest"),
        ("model_ema=true", "train.moving"),
        ("n_jobs=2", "train.threads"),
    ],
)
def test_a_word_of_the_field_names_the_key(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path), (line,))
    assert f"use {key} instead" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("train.device=gpu", "cuda"),
        ("train.device=cuda:0", "cuda"),
        ("train.precision=fp16", "bfloat16"),
        ("train.distribution=zero3", "fsdp"),
        ("optimizer=adamw_torch", "adamw"),
        ("schedule=linear_with_warmup", "linear"),
        ("schedule.kind=noam", "inverse-sqrt"),
        ("task=clm", "language"),
        ("task.kind=text-classification", "classify"),
        ("model.activation=swish", "silu"),
        ("model.activation=gelu_new", "gelu_tanh"),
    ],
)
def test_a_value_in_the_words_of_the_field_names_ours(tmp_path: Path, line: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path), (line,))
    assert re.search(rf"is not one of .*; use '{re.escape(value)}' instead", str(caught.value))


FORECAST = """
task.kind = "forecast"
data.kind = "waves"
model.name = "series-linear"
"""
FILES = """
task.kind = "forecast"
data.kind = "series"
data.files = ["a.csv"]
model.name = "series-linear"
"""
LABELLED = """
task.kind = "classify"
data.kind = "labelled"
data.train = ["a.tsv"]
model.name = "bert-tiny"
"""
TEXT = """
task.kind = "language"
data.kind = "text"
data.train = ["a.txt"]
model.name = "gpt-tiny"
schedule.kind = "cosine"
"""
SPACING = "the spacing of a time series is read from its times; data.period is the seasonal period"
VALID = "valid keys are task, data, model, start, folder, seed, train, optimizer, schedule, smoke"
OTHERS = "{} has no such setting (other kinds have {})"
IMAGES = """
task.kind = "classify"
data.kind = "digits"
model.name = "vit-tiny"
"""


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("kv_heads=2", "groups"),
        ("num_key_value_heads=2", "groups"),
        ("num_decoder_layers=2", "depth"),
        ("bias=1", "biases"),
    ],
)
def test_a_word_for_a_key_that_not_every_model_has(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(InputError, match=f"; use {key} instead"):
        read_run(written(tmp_path, TEXT), (f"model.{line}",))


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
        (FORECAST, "freq=24", f"not needed: {SPACING}"),
        (FORECAST, "data.freq=1h", f"not needed: {SPACING}"),
        (FORECAST, "data.frequency=D", f"not needed: {SPACING}"),
        (FORECAST, "data.steps=24", "use data.horizon instead"),
        (FORECAST, "data.split=0.1", "use data.share instead"),
        (FILES, "data.target=y", "use data.values instead"),
        (FILES, "data.time_column=ds", "use data.time instead"),
        (FILES, "data.timestamp=ds", "use data.time instead"),
        (FILES, "data.path=a.csv", "use data.files instead"),
        (FORECAST, "order=1", VALID),
        (IMAGES, "aa=1", "use data.augment.ways instead"),
        (IMAGES, "data.std=0.5", "use data.deviation instead"),
        (IMAGES, "data.target=y", OTHERS.format("data 'digits'", "data.values or data.columns or data.label")),
        (IMAGES, "data.crop=1", OTHERS.format("data 'digits'", "data.fit")),
        (IMAGES, "model.lr=1", "use optimizer.rate instead"),
        (IMAGES, "model.batch_size=8", "use data.batch instead"),
        (IMAGES, "model.lora_r=4", "use start.rank instead"),
        (IMAGES, "model.random_seed=4", "use seed instead"),
        (IMAGES, "model.pretrained=true", "use start.model instead"),
        (IMAGES, "model.freeze=true", "use start.learn instead"),
        (IMAGES, "model.lr_scheduler=cosine", "use schedule instead"),
        (IMAGES, "model.output_dir=x", "use folder instead"),
        (IMAGES, "model.devices=2", "not needed: torchrun starts one process for each device"),
        (TEXT, "data.split=0.1", "use data.share instead"),
        (TEXT, "data.vocab=100", "use data.vocabulary instead"),
        (TEXT, "data.text_column=2", "use data.key instead"),
        (TEXT, "eta_min=0", "use schedule.floor instead (as a fraction of the peak rate)"),
        (TEXT, "train_size=0.9", "use data.share instead (the fraction to hold out)"),
        (IMAGES, "loss=mse", "not needed: the loss follows from the task"),
        (IMAGES, "gpus=2", "not needed: torchrun starts one process for each device"),
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


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("task=pictured", True),
        ("task=forecats", False),
        ("data=tones", True),
        ("model.name=pixels", True),
        ("model.attention=laplace", True),
        ("model.attention=sofmax", False),
        ("schedule=sawtooth", False),
    ],
)
def test_what_a_plugin_may_have_names_the_option(tmp_path: Path, line: str, named: bool) -> None:
    """Not where another name is meant, or where plug-ins have nothing to add."""
    with pytest.raises(InputError) as caught:
        read_run(written(tmp_path, IMAGES), (line,))
    assert ("if it is a plug-in's, give its file with --plugin" in caught.value.what) == named, caught.value.what


def test_keys_are_not_listed_without_a_kind(tmp_path: Path) -> None:
    """Those of all tasks would say nothing."""
    with pytest.raises(RunFileError) as caught:
        read_run(written(tmp_path, IMAGES), ("task=forecats", "task.weight=1", "task.label_smoothing=1"))
    told = {one["key"]: one["text"] for one in caught.value.problems}
    assert told["task.weight"] == "unknown key"
    assert told["task.label_smoothing"] == "unknown key; use task.smoothing instead"


def test_in_python_too() -> None:
    with pytest.raises(InputError, match="use heads instead"):
        regard.build("gpt-tiny", num_heads=2)


def test_every_key_of_the_table_exists() -> None:
    known = {dotted(path) for path in every_key(RunSettings)}
    words = [*RUN_SYNONYMS, *(f"model.{key}" for key in MODEL_SYNONYMS), *VALUE_SYNONYMS]
    assert not [key for key in words if key not in known]


def test_every_word_of_the_table_names_its_key_in_some_run_file(tmp_path: Path) -> None:
    silent = {(key, word) for key, words in RUN_SYNONYMS.items() for word in words}
    for text in (*map(run_template, GOALS), LABELLED, IMAGES, FORECAST, TEXT):
        file, known = written(tmp_path, text), {dotted(path) for path in every_key(RunSettings, tomllib.loads(text))}
        asked = sorted({word for key, word in silent if key in known and word not in known})
        for i in range(0, len(asked), MOST_PROBLEMS - 1):
            with pytest.raises(RunFileError) as caught:
                read_run(file, tuple(f"{word}=1" for word in asked[i : i + MOST_PROBLEMS - 1]))
            told = [(one["key"], re.search(r"; use ([\w.]+) instead", one["text"])) for one in caught.value.problems]
            silent -= {(found[1], word) for word, found in told if found}
    assert silent == set()


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
    assert not [word for words in ATTENTION_SYNONYMS.values() for word in words if word in MECHANISMS]
    assert set(ATTENTION_SYNONYMS) <= set(MECHANISMS)


def test_the_glossary_has_both_columns() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    values = {f"{key} = {value}": words for key, one in VALUE_SYNONYMS.items() for value, words in one.items()}
    tables = {
        "Keys of a run file": RUN_SYNONYMS,
        "Keys of a model": MODEL_SYNONYMS,
        "Arguments in Python": ARGUMENT_SYNONYMS,
        "Values of keys": values | {f"activation = {name}": words for name, words in ACTIVATION_SYNONYMS.items()},
        "Names of attention": ATTENTION_SYNONYMS,
    }
    sections = {heading: text.split(f"## {heading}")[1].split("\n## ")[0] for heading in tables}
    for heading, table in tables.items():
        rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", sections[heading], re.M)
        assert {key: re.findall(r"`([^`]+)`", row) for key, row in rows} == {k: list(x) for k, x in table.items()}


def test_the_glossary_has_what_is_not_needed() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    for reason, words in NEEDLESS_WORDS.items():
        (row,) = re.findall(rf"^\|(.*)\| {re.escape(reason)} \|$", text, re.M)
        assert re.findall(r"`([^`]+)`", row) == words.split(), reason


def test_epochs_are_steps_of_this_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained(tmp_path, "train.epochs=2", "train.log=1")
    last = [line for line in Journal(folder).lines() if "loss" in line][-1]
    assert last["epoch"] == pytest.approx(2)
    run = read_run(folder / "run.toml")
    assert (run.train.epochs, run.train.steps) == (2, last["step"])
