"""Models that figures train for an hour: begun once, gone on with after an interruption, and read as they are."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.errors import InputError
from regard.modalities.text.goals.translate import TranslationSettings
from regard.modalities.text.sources.pairs import PairFiles
from regard.modalities.text.sources.reverse import Reverse
from regard.run.settings import RunSettings, read_run
from regard.run.training import find_run, reopen_run
from regard.train.settings import Train
from regard_lectures import runs
from regard_lectures.learning import caption_students
from regard_lectures.recurrent import captioned, real_lengths

RUN = RunSettings(
    task=TranslationSettings(),
    data=Reverse(rows=64, longest=4, budget=256),
    model={"name": "transformer-small", "dim": 16, "depth": 1, "heads": 2, "hidden": 32},
    train=Train(steps=6, log=1, evaluate=3, save=2, threads=1),
)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def never(*words: object) -> None:
    raise AssertionError("this was trained before")


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(one.parameters(), other.parameters(), strict=True))


def test_a_model_is_trained_once_and_gone_on_with(elsewhere, monkeypatch):
    first = runs.trained("mine", RUN)
    assert (elsewhere / "mine" / "model").is_dir()
    monkeypatch.setattr(runs, "train_run", never)
    shutil.rmtree(elsewhere / "mine" / "model")  # as after a crash before its end
    assert same(runs.trained("mine", RUN).net, first.net)
    monkeypatch.setattr(runs, "resume_run", never)
    assert same(runs.trained("mine", RUN).net, first.net)


@pytest.mark.parametrize("other", [{"seed": 1}, {"model": {**RUN.model, "dim": 32}}, {"train": Train(steps=7)}])
def test_a_run_with_other_settings_is_not_taken(elsewhere, monkeypatch, other):
    runs.trained("mine", RUN)
    monkeypatch.setattr(runs, "load", never)
    with pytest.raises(InputError, match=f"another {next(iter(other))}"):
        runs.trained("mine", replace(RUN, **other))


def test_its_curve_is_what_was_measured_while_it_was_trained(elsewhere):
    runs.trained("mine", RUN)
    lines = [json.loads(line) for line in (elsewhere / "mine" / "metrics.jsonl").read_text().splitlines()]
    found = runs.curve("mine")
    assert [loss for _, loss in found] == [line["held_out"]["loss"] for line in lines if "held_out" in line]
    assert len(found) == 2
    assert 0 < found[0][0] < found[1][0] < 10


def test_its_time_goes_on_after_an_interruption(elsewhere):
    runs.trained("mine", RUN)
    times = [(1, 60), (2, 120), (3, 180), (2, 30), (3, 90), (4, 150), (5, 30), (6, 90)]  # stopped after 3 and after 4
    lines = [json.dumps({"step": step, "elapsed": seconds}) + "\n" for step, seconds in times]
    (elsewhere / "mine" / "timing.jsonl").write_text("".join(lines), "utf-8")
    assert [minutes for minutes, _ in runs.curve("mine")] == [4.5, 7.0]


def test_its_operations_are_those_of_all_its_steps(elsewhere):
    """Of a linear map with w weights, six times w for each token; those of the words' own matrix come on top."""
    model = runs.trained("mine", RUN)
    spent = runs.operations("mine")
    path = elsewhere / "mine" / "run.toml"
    path.write_text(path.read_text().replace("steps = 6", "steps = 12"))
    assert runs.operations("mine") == pytest.approx(2 * spent)
    weights = sum(x.numel() for name, x in model.net.named_parameters() if x.ndim == 2 and "embed" not in name)
    data = reopen_run(elsewhere / "mine").sources.splits["train"]
    batches = [data.collate(data.rows(step).tolist(), step) for step in range(runs.COUNTED)]
    tokens = sum(batch.source.numel() + batch.given.numel() for batch in batches) / 2 / runs.COUNTED
    assert 1 < spent / (6 * weights * tokens * RUN.train.steps) < 1.5


def lines_of(run: RunSettings) -> list[list[str]]:
    assert isinstance(run.data, PairFiles)
    return [Path(path).read_text("utf-8").splitlines() for path in run.data.train]


def test_captions_are_as_long_as_was_asked_for(elsewhere, shared_data, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    nets = {(name, n): real_lengths.run_of(name, n) for name in real_lengths.NAMES for n in (15, 30)}
    german, english = lines_of(nets["RNNsearch", 15])
    assert len(german) == len(english) > 20_000
    assert max(len(text.split()) for text in german + english) == 15
    assert nets["RNNsearch", 30] == read_run(find_run(real_lengths.RECIPE))
    for n in (15, 30):
        search, fixed = nets["RNNsearch", n], nets["RNNencdec", n]
        assert search.data == fixed.data
        assert search.model | {"decoder": "cho", "bidirectional": False} == fixed.model


def test_lessons_differ_in_what_is_taught_alone(elsewhere, shared_data, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    elsewhere.mkdir()
    gold = captioned.pairs_of("train")
    caption_students.taught_file().write_text("".join(f"taught {i}\n" for i in range(len(gold))), "utf-8")
    found = {lesson: lines_of(caption_students.run_of(lesson)) for lesson in caption_students.LESSONS}
    sources, targets = map(list, zip(*gold, strict=True))
    assert found["captions"] == [sources, targets]
    assert found["teacher"] == [sources, [f"taught {i}" for i in range(len(gold))]]
    assert found["both"] == [sources * 2, targets + found["teacher"][1]]
