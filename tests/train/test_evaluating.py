"""regard evaluate, check and init; settings of a run that the verb obeys."""

import json
import os
import re
import shutil
import signal
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.data.batches import Batches
from regard.data.order import Order
from regard.run import machine
from regard.run.check import heaviest
from regard.run.job import PreparedRun, job_of
from regard.run.machine import usual_threads
from regard.run.settings import read_run
from regard.run.templates import all_templates, template_run
from regard.run.training import not_learned
from regard.train import stop
from tests.train.runs import RUN, STEPS, contents, fingerprint, lines, refused, steps, trained, tree, written
from tests.train.verbs import interrupt, pairs


def test_evaluate(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The final model: on held-out data it gives what its card says."""

    def measured(*words: str) -> dict[str, float]:
        capsys.readouterr()
        assert main(["evaluate", str(whole), "--json", *words]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["split"] == (words[1] if words else "held_out")
        return told["metrics"]

    before = contents(whole)
    best = measured()
    assert measured("--split", "held_out") == best
    assert f"On held-out data: loss {best['loss']:.4g}" in (whole / "model" / "card.md").read_text()
    assert measured("--split", "test") != best
    assert measured("--split", "train").keys() == {"loss", "perplexity", "accuracy"}
    told = refused(capsys, "evaluate", str(whole), "--split", "tests")
    assert "no tests data" in told
    assert "train, held_out, test" in told
    assert main(["evaluate", str(whole)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[:2] == ["weights\tthe final model", f"loss\t{best['loss']:.6g}"]
    assert contents(whole) == before


def test_evaluate_takes_the_best_and_not_the_last(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a rate that ruins it after its first step. Where the best is damaged, the newest has to do."""
    folder = trained(place, "train.evaluate=1", "optimizer.rate=1.0", "schedule=constant", "model.dropout=0", "seed=3")
    measured = {line["step"]: line["held_out"]["loss"] for line in lines(folder) if "held_out" in line}
    best = min(measured, key=lambda step: measured[step])
    assert best < STEPS
    assert best in steps(folder)
    shutil.rmtree(folder / "model")  # as if it were not finished
    for step in (best, STEPS):
        capsys.readouterr()
        assert main(["evaluate", str(folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metrics"]["loss"] == measured[step]
        (folder / "checkpoints" / f"step-{best:06d}" / "net.safetensors").write_bytes(b"")


def test_evaluate_before_there_is_anything(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stop, "AGAIN", 0.0)
        interrupt(patch, 2, signal.SIGINT, signal.SIGINT)
        main(["train", str(written(place)), "folder=run"])
    assert "no checkpoint yet" in refused(capsys, "evaluate", "run")


def test_check_tells_and_writes_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place)
    assert main(["check", "tiny.toml"]) == 0
    told = capsys.readouterr().out
    for wanted in (
        r"task        translate, in runs/tiny",
        r"train       200 rows in \d+ batches",
        r"held_out    200 rows in \d+ batches",
        r"bad rows    none",
        r"model       transformer, 5\.\dk parameters, from transformer-small with other sizes \(dim, depth",
        r"batch       source \d+ x \d+, given \d+ x \d+, wanted \d+ x \d+, keys \d+ x \d+",
        r"memory      [\d.]+ [MG]B",
        r"time        \d+\.\d+ s per step, \d+:\d+ per epoch, \d+:\d+ in total",
    ):
        assert re.search(wanted, told), wanted
    assert main(["check", "tiny.toml", "--json", "train.split=3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["splits"]["train"]["rows"] == 200
    assert report["seconds_in_all"] == pytest.approx(20 * report["seconds_per_step"])
    assert report["seconds_per_epoch"] == pytest.approx(
        report["splits"]["train"]["batches"] * report["seconds_per_step"]
    )
    assert report["bad_rows"] == 0
    assert tree(place) == {"tiny.toml"}


def test_check_tries_the_batch_with_the_longest_rows(place: Path) -> None:
    train = prepared(place).sources.splits["train"]
    assert max(train.source.lengths[row, 0] for row in train.rows(heaviest(train))) == 5
    assert min(train.source.lengths[:, 0]) == 2


def test_check_tries_no_batch_that_is_left_over() -> None:
    """Nine rows in batches of four: the longest stands alone, and costs less than four that are nearly as long."""
    for lengths in (np.arange(10, 19), None):
        rows = SimpleNamespace(lengths=lengths)
        for seed in range(5):
            train = Batches(rows, Order(9, lengths, rows=4, seed=seed), list)  # type: ignore[arg-type]
            assert len(train.rows(heaviest(train))) == 4


def initial(task: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["init", task]) == 0
    return capsys.readouterr().out


SMALL = ["train.steps=2", "model.dim=16", "model.depth=1", "model.heads=2", "model.hidden=32", "train.threads=1"]


@pytest.mark.parametrize("task", all_templates())
def test_init_gives_a_run_file(place: Path, capsys: pytest.CaptureFixture[str], task: str) -> None:
    text = initial(task, capsys)
    assert read_run(written(place, text, "run.toml")) == template_run(all_templates()[task])
    table = tomllib.loads(text)
    told = ("\n{} = ", "\n# {} = ", "\n[train.{}]")
    assert all(any(form.format(name) in text for form in told) for name in table["train"])
    assert main(["init", task, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"].rstrip("\n") == text.rstrip("\n")
    assert "did you mean 'translate'" in refused(capsys, "init", "translation")


def test_init_translate_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place, initial("translate", capsys), "run.toml")
    (place / "pairs.tsv").write_text(pairs())
    assert main(["train", "run.toml", *SMALL, "data.vocabulary.size=300"]) == 0
    assert regard.load(place / "runs" / "run" / "model").config.vocab <= 300


def test_init_language_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are longer than the model can read are cut."""
    written(place, initial("language", capsys), "run.toml")
    (place / "text.txt").write_text(
        "".join(f"{row} and so on, and on\n" for row in pairs(count=100).split("\n") if row)
    )
    changes = ["data.vocabulary.kind=characters", "model.length=12", "data.share=0.1"]
    assert main(["train", "run.toml", *SMALL, *changes]) == 0
    model = regard.load(place / "runs" / "run" / "model")
    assert (model.family, model.config.length) == ("gpt", 12)


def images(folder: Path, size: int = 8) -> None:
    numbers = np.random.default_rng(0)
    for label in ("dark", "light"):
        (folder / label).mkdir(parents=True)
        for i in range(12):
            pixels = numbers.integers(0, 100, (size, size), np.uint8) + (0 if label == "dark" else 150)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{i}.png")


def test_init_classify_trains(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(place, initial("classify", capsys), "run.toml")
    images(place / "images")
    changes = [*SMALL, "data.share=0.2"]
    assert main(["train", "run.toml", *changes]) == 0
    model = regard.load(place / "runs" / "run" / "model")
    assert (model.config.classes, model.config.image, model.config.channels) == (2, 8, 1)  # as the images are
    sample = (place / "runs" / "run" / "samples" / "step-000002.txt").read_text()
    assert re.match(r"label -> prediction: (dark|light) -> (dark|light)", sample)
    assert "accuracy" in lines(place / "runs" / "run")[-1]["held_out"]
    assert "model.classes is too small" in refused(capsys, "train", "run.toml", *changes, "model.classes=1", "folder=b")


def test_images_are_read_at_the_models_size(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where only its name says what that is."""
    images(place / "images", 40)
    text = (
        '[task]\nkind = "classify"\n[data]\nkind = "images"\ntrain = "images"\nbatch = 4\n[model]\nname = "vit-cifar"\n'
    )
    assert main(["check", str(written(place, text)), "--json", *SMALL]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"] == {"inputs": [4, 3, 32, 32], "labels": [4]}


def test_a_perceptron_learns_images_too(place: Path) -> None:
    images(place / "images", 40)
    text = (
        '[task]\nkind = "classify"\n[data]\nkind = "images"\ntrain = "images"\nbatch = 4\n[model]\nname = "mlp-mnist"\n'
    )
    steps = [word for word in SMALL if not word.startswith("model.")]
    assert main(["train", str(written(place, text)), *steps, "folder=run"]) == 0
    model = regard.load(place / "run" / "model")
    assert model.family == "mlp"
    assert (model.config.classes, model.config.image) == (2, 28)


def test_half_the_width(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused where it would only be emulated; where it is not, used: the numbers are others, but not by much."""
    written(place)
    monkeypatch.setattr(machine, "half_width_on_cpu", lambda: False)
    told = refused(capsys, "train", "tiny.toml", "train.precision=bfloat16")
    assert "does not support bfloat16" in told
    assert "train.precision=float32" in told
    assert tree(place) == {"tiny.toml"}
    monkeypatch.setattr(machine, "half_width_on_cpu", lambda: True)
    found = []
    for precision in ("float32", "bfloat16"):
        assert main(["train", "tiny.toml", f"train.precision={precision}", f"folder={precision}", "train.steps=4"]) == 0
        found.append(lines(place / precision)[-1]["held_out"]["loss"])
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], rel=0.02)
    assert {x.dtype for x in regard.load(place / "bfloat16" / "model").parameters()} == {torch.float32}


def test_what_must_not_change_the_numbers(place: Path) -> None:
    """Recomputing activations, and splitting a batch: the same metrics to 1e-6 without dropout."""
    written(place)
    found: list[list[dict[str, Any]]] = []
    for i, change in enumerate(("train.split=1", "train.recompute=true", "train.split=3")):
        assert main(["train", "tiny.toml", change, f"folder=run{i}", "model.dropout=0.0"]) == 0
        found.append(lines(place / f"run{i}"))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            flat = {**one, **one.get("held_out", {})}
            assert flat.keys() == {**two, **two.get("held_out", {})}.keys()
            for name, value in {**two, **two.get("held_out", {})}.items():
                assert name == "held_out" or value == pytest.approx(flat[name], rel=1e-6, abs=1e-6), name


def test_a_seed_is_a_run_and_another_is_another(place: Path, whole: Path) -> None:
    assert fingerprint(trained(place / "same")) == fingerprint(whole)
    other = fingerprint(trained(place / "other", "seed=1"))
    assert other["metrics.jsonl"] != fingerprint(whole)["metrics.jsonl"]


def prepared(place: Path) -> PreparedRun:
    run = read_run(written(place))
    return job_of(run, place / "x", place)


def test_the_weights_follow_from_the_seed_alone(place: Path) -> None:
    """Not from the random numbers that were drawn before."""
    one = prepared(place).model.net.embed.weight
    torch.rand(7)
    assert torch.equal(one, prepared(place).model.net.embed.weight)


def test_only_what_is_trained_on_is_shuffled(place: Path) -> None:
    splits = prepared(place).sources.splits
    for name, split in splits.items():
        epochs = [[tuple(split.rows(step + i * len(split))) for step in range(len(split))] for i in (0, 1)]
        assert (epochs[0] != epochs[1]) == (name == "train")
        assert sorted(row for batch in epochs[1] for row in batch) == list(range(200))


def test_early_stopping_ends_a_run(place: Path) -> None:
    """A rate of nothing brings nothing better: after the first evaluation and two more it is finished, with a model."""
    folder = trained(place, "train.patience=2", "train.evaluate=2", "optimizer.rate=1e-30")
    assert lines(folder)[-1]["step"] == 6
    assert (folder / "model").is_dir()
    assert "early stopping: no improvement over step 2 in 2 evaluations" in (folder / "model" / "card.md").read_text()


def test_more_steps_go_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finished run whose run file is given more steps is trained on, and its model replaced."""
    folder = trained(place, "train.steps=8")
    old = (folder / "model" / "model.safetensors").read_bytes()
    path = folder / "run.toml"
    path.write_text(path.read_text().replace("steps = 8 ", "steps = 12 "))
    assert main(["resume", str(folder)]) == 0
    assert "resuming after step 8" in capsys.readouterr().out
    assert steps(folder)[-1] == 12
    assert (folder / "model" / "model.safetensors").read_bytes() != old
    path.write_text(path.read_text().replace("steps = 12 ", "steps = 10 "))  # and fewer are done already
    assert main(["resume", str(folder)]) == 0
    assert "all 10 steps are done" in capsys.readouterr().out


def test_a_model_in_half_the_space(place: Path, whole: Path) -> None:
    """The same numbers, rounded; the card speaks of the rounded ones, and the model computes in float32."""
    folder = trained(place, "train.stored=float16")
    small, large = folder / "model" / "model.safetensors", whole / "model" / "model.safetensors"
    assert small.stat().st_size < 0.6 * large.stat().st_size
    one, two = (regard.load(x / "model").state_dict() for x in (folder, whole))
    for name, x in two.items():
        assert one[name].dtype == torch.float32
        assert torch.equal(one[name], x.half().float()), name
    assert "held-out data" in (folder / "model" / "card.md").read_text()


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OMP_NUM_THREADS says, or all; of many processes each has its share, since torchrun sets that to 1."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usual_threads() == torch.get_num_threads()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert usual_threads() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert usual_threads() == 1
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert usual_threads() == 8


def test_smoke(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own changes, then those of the command line. When it is interrupted, nobody asks whether it has learned."""
    assert "no [smoke] table" in refused(capsys, "train", str(written(place)), "--smoke")
    text = RUN + '[smoke]\nset = ["train.steps=6", "train.log=2"]\nfactor = 0.99\n'
    assert main(["train", str(written(place, text)), "--smoke", "folder=a", "train.log=1"]) == 0
    assert [line["step"] for line in lines(place / "a") if "loss" in line] == [1, 2, 3, 4, 5, 6]
    for _ in range(2):  # in a place of its own, again and again
        assert main(["train", "tiny.toml", "--smoke", "train.log=1"]) == 0
    assert {path.name for path in (place / "runs").iterdir()} == {"tiny-smoke"}
    told = refused(capsys, "train", "tiny.toml", "--smoke", "folder=b", "smoke.factor=0.01", code=1)
    assert re.search(r"the loss does not decrease: it went from [\d.]+ to [\d.]+, not below 0.01 of it", told)
    assert "1 lines of metrics" in refused(capsys, "train", "tiny.toml", "--smoke", "folder=c", "train.log=9", code=1)
    interrupt(monkeypatch, 1, signal.SIGTERM)
    assert main(["train", "tiny.toml", "--smoke", "folder=d", "train.log=9"]) == 130
    assert "learning" not in capsys.readouterr().out


def test_not_learned(tmp_path: Path) -> None:
    def judged(*losses: float) -> str:
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"loss": loss}) + "\n" for loss in losses))
        return not_learned(tmp_path, 0.5)

    assert judged(4.0, 9.0, 1.9) == ""
    assert "the loss does not decrease" in judged(4.0, 1.0, 2.0)
    assert "cannot be checked with 1 lines" in judged(4.0)
    (tmp_path / "metrics.jsonl").write_text('{"loss": 4.0}\n{"held_out": {"loss": 0.1}}\n{"loss": null}\n')
    assert not_learned(tmp_path, 0.5)


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.train.progress import make_reporter

    monkeypatch.setenv("RANK", "1")
    make_reporter(False).note("twice")
    monkeypatch.setenv("RANK", "0")
    make_reporter(False).note("once")
    assert capsys.readouterr().out == "once\n"


def test_doctor_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) in (0, 1)
    told = capsys.readouterr().out
    assert torch.__version__ in told
    assert tree(place) == set()
