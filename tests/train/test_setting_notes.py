"""`regard check` notes settings that are allowed and yet perhaps not meant."""

import json
from pathlib import Path

import pytest

from regard.cli.app import main
from regard.nn.mechanisms import MECHANISMS
from regard.run.sizes import other_sizes
from tests.train.runs import RUN, written
from tests.train.verbs import pairs


def notes(place: Path, capsys: pytest.CaptureFixture[str], *changes: str, text: str = RUN) -> str:
    path = written(place, text)
    capsys.readouterr()
    assert main(["check", str(path), "--json", *changes]) == 0
    return "\n".join(json.loads(capsys.readouterr().out)["warnings"])


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "cosine", "linear", "constant"])
def test_a_warmup_beyond_the_end(schedule: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = notes(place, capsys, f"schedule={schedule}", "schedule.warmup=80")
    assert "schedule.warmup = 80 is longer than the 20 steps" in told
    assert "25%" in told
    assert "warmup" not in notes(place, capsys, f"schedule={schedule}", "schedule.warmup=20")
    epochs = notes(place, capsys, f"schedule={schedule}", "schedule.warmup=80", "train.epochs=100")
    assert "warmup" not in epochs, "the steps are those of the epochs"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["optimizer.rate=0.5"], "optimizer.rate = 0.5 is"),
        (["optimizer=adamw", "optimizer.rate=0.5"], "training may diverge"),
        (["optimizer.rate=1e-7"], "little is learned"),
        (["optimizer=sgd", "optimizer.rate=20.0"], "usual for sgd"),
        (["optimizer=sgd", "optimizer.rate=0.5"], ""),
        (["optimizer=adafactor"], ""),
        (["optimizer.rate=1e-4"], ""),
    ],
)
def test_a_rate_far_from_the_usual_one(
    changes: list[str], told: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = notes(place, capsys, *changes)
    assert told in found
    assert ("rate" in found) == bool(told)


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        ("local", "the window of 'local' has 256 tokens"),
        ('{kind = "local", window = 3}', ""),
        ('["softmax", "lsh"]', "the chunk of 'lsh' has 64 tokens"),
        ('{kind = "chunked", chunk = 4}', ""),
        ('{kind = "strided", stride = 50}', "the stride of 'strided'"),
        ("strided", ""),
        ("softmax", ""),
    ],
)
def test_a_window_that_is_longer_than_the_texts(
    attention: str, told: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "pairs.tsv").write_text(pairs())
    data = '[data]\nkind = "pairs"\ntrain = ["pairs.tsv"]\nvocabulary = {kind = "words", size = 64}\n'
    text = RUN.partition("[data]")[0] + data + "[model]" + RUN.partition("[model]")[2]
    found = notes(place, capsys, f"model.attention={attention}", text=text)
    assert told in found
    assert ("attends to all tokens" in found) == bool(told)


def test_the_span_of_a_mechanism_is_one_of_its_settings() -> None:
    spans = {name: row.span for name, row in MECHANISMS.items() if row.span}
    assert spans.keys() >= {"local", "strided", "fixed", "chunked", "lsh"}
    for name, span in spans.items():
        assert hasattr(MECHANISMS[name].settings(), span)


def test_a_model_has_the_name_of_another_only_with_its_sizes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`regard init classify` gave a "vit-base" of 456 thousand parameters."""
    assert main(["init", "classify"]) == 0
    assert "# a vit model, smaller or larger than vit-base: dim, depth" in capsys.readouterr().out
    assert main(["init", "translate"]) == 0
    assert "smaller or larger" not in capsys.readouterr().out
    assert main(["check", str(written(place))]) == 0
    assert "k parameters, from transformer-small with other sizes (dim," in capsys.readouterr().out


def test_sizes_that_follow_from_the_data_are_no_others() -> None:
    assert other_sizes("vit-base", {"name": "vit-base", "classes": 3, "dropout": 0.3, "dim": 768}) == []
    assert other_sizes("vit-base", {"dim": 96, "depth": 12}) == ["dim"]
    assert other_sizes("detr-small", {"dims": [32, 64, 128]}) == ["dims"]
