"""regard train refuses what it cannot do, before anything is lost."""

import gzip
import re
from pathlib import Path

import pytest
import torch

from regard.cli.app import main
from regard.data.files import find_file
from regard.nn.feedforward import FeedForward
from regard.run.settings import read_run
from regard.run.training import find_run
from regard.train.checkpoint import find_damage
from tests.train.runs import RUN, fingerprint, refused, steps, tree, written
from tests.train.verbs import pairs

PAIRS = """
[task]
kind = "translate"
[data]
kind = "pairs"
train = ["pairs.tsv"]
share = 0.1
budget = 300
vocabulary = {kind = "words", size = 50}
[model]
name = "transformer-small"
dim = 16
depth = 1
heads = 2
hidden = 32
[train]
steps = 10
log = 5
evaluate = 5
save = 5
threads = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("steps = 20", "stepps = 20", "tiny.toml:LINE: train.stepps: unknown key; did you mean 'steps'?"),
        ("steps = 20", 'steps = "many"', "tiny.toml:LINE: train.steps: 'many' is not an integer"),
        ("steps = 20", "steps = 0", "tiny.toml:LINE: train: steps = 0 must be at least 1"),
        ("dim = 16", "dimm = 16", "tiny.toml:LINE: model.dimm: unknown key 'dimm'; did you mean 'dim'?"),
        ("dim = 16", "dim = true", "tiny.toml:LINE: model.dim: dim = True is not an integer"),
        ("dim = 16", "dim = 15", "tiny.toml:LINE: model.dim: dim = 15 is not a multiple of heads = 2"),
        (
            "dim = 16",
            'dim = 16\nattention = "local-p"',
            "tiny.toml:LINE: model.attention: attention 'local-p'",
        ),
        (
            "dropout = 0.1",
            "dropout = 1.5",
            "tiny.toml:LINE: model.dropout: dropout = 1.5 must be at least 0 and less than 1",
        ),
        ('"transformer-small"', '"transformer-smal"', "tiny.toml:LINE: model.name: unknown model"),
        ('"transformer-small"', '"transformer"', "'transformer'; the transformer models are transformer-small, "),
        ('"reverse"', '"reserve"', "tiny.toml:LINE: data.kind: 'reserve' is not one of"),
        ("longest = 5", "longest = 1", "tiny.toml:LINE: data: longest = 1 must be at least 2"),
        ('kind = "translate"', 'kind = "classify"', "cannot be used for the task 'classify', which requires 'images'"),
        ("threads = 1", "threads = 1\npatience = 0", "tiny.toml:LINE: train: patience = 0"),
        ("\n[task]", "seed = -1\n[task]", "tiny.toml:1: seed = -1 must be at least 0"),
        ('"adam"', '"adafactor"\n[train.x]', "train.x: unknown key"),
        ("[task]", "[task", "tiny.toml:LINE: invalid TOML"),
    ],
)
def test_a_wrong_run_file(place: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str) -> None:
    """The file, the line, the key and the nearest one; nothing is written."""
    assert RUN.count(old) == 1
    text = RUN.replace(old, new)
    line = 1 + text[: text.index(new) + len(new)].count("\n")
    assert told.replace("LINE", str(line)) in refused(capsys, "train", written(place, text).name)
    assert tree(place) == {"tiny.toml"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("train.stpes=5", "override train.stpes=5: train.stpes: unknown key; did you mean 'steps'?"),
        ("train.steps=five", "train.steps: 'five' is not an integer"),
        ("train.steps", "expected key=value"),
        ("model.heads=3", "model.dim: dim = 16 is not a multiple of heads = 3"),
        ("model.vocab=5", "model.vocab is too small"),
        ("model={name='gpt-tiny'}", "a gpt model cannot be trained to translate"),
        ("train.precision=float16", "'float16' is not one of 'float32', 'bfloat16'"),
        ("train.device=cuda", "PyTorch cannot find a usable GPU"),
    ],
)
def test_a_wrong_override(place: Path, capsys: pytest.CaptureFixture[str], change: str, told: str) -> None:
    assert not torch.cuda.is_available() or "cuda" not in change
    for verb in ("train", "check"):
        assert told in refused(capsys, verb, str(written(place)), change)
    assert tree(place) == {"tiny.toml"}


def test_what_cannot_be_sharded_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("optimizer=adafactor", "train.distribution=fsdp")
    assert "'adafactor' does not support sharding" in refused(capsys, "train", str(written(place)), *changes)


def test_run_files_that_are_no_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "wide.toml").write_text(RUN, "utf-16")
    assert "wide.toml:1: the file is not valid UTF-8" in refused(capsys, "train", "wide.toml")
    (place / "marked.toml").write_text(RUN, "utf-8-sig")
    assert read_run(place / "marked.toml") == read_run(written(place))
    assert "run file not found" in refused(capsys, "train", "gone.toml")
    told = refused(capsys, "train", "revers")
    assert "unknown recipe" in told
    assert "reverse" in told


def test_a_folder_does_not_hide_a_recipe(place: Path) -> None:
    (place / "reverse").mkdir()
    assert find_run("reverse").name == "reverse.toml"
    assert find_run("reverse").is_file()


def test_missing_data(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It says where it looked: beside the run file, here, and where REGARD_DATA points."""
    path = written(place / "files", PAIRS)
    told = refused(capsys, "train", str(path))
    assert f"{place / 'files' / 'pairs.tsv'} or {place / 'pairs.tsv'}" in told
    assert "set REGARD_DATA to the folder of your data (it is not set)" in told
    (place / "data").mkdir()
    monkeypatch.setenv("REGARD_DATA", str(place / "data"))
    assert str(place / "data" / "pairs.tsv") in refused(capsys, "train", str(path))
    for folder in ("data", ".", "files"):  # the nearest one is taken
        (place / folder / "pairs.tsv").write_text(pairs())
        assert find_file("pairs.tsv", path.parent) == (place / folder / "pairs.tsv").resolve()
    assert find_file(str(place / "pairs.tsv"), path.parent) == place / "pairs.tsv"


def test_too_many_bad_rows(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of a hundred stop it before the first step, each with its file and line, and no folder is made."""
    path = written(place, PAIRS)
    (place / "pairs.tsv").write_text(pairs(bad=6))
    for verb in ("train", "check"):
        told = refused(capsys, verb, str(path))
        assert "6 of 300 rows are bad (2.00%)" in told
        for line in (8, 28, 48, 68, 88, 108):
            assert f"{place / 'pairs.tsv'}:{line}: 1 columns instead of 2" in told
    assert tree(place) == {"tiny.toml", "pairs.tsv"}
    assert main(["train", str(path), "data.bad=0.02", "folder=run", "train.steps=1"]) == 0


def test_a_few_bad_rows_are_listed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "pairs.tsv").write_text(pairs(bad=2))
    assert main(["check", str(written(place, PAIRS))]) == 0
    told = capsys.readouterr().out
    assert "bad rows    2 skipped" in told
    assert "pairs.tsv:28: 1 columns instead of 2" in told
    assert main(["train", "tiny.toml", "folder=run"]) == 0
    listed = (place / "run" / "faults.txt").read_text().splitlines()
    assert listed == [f"{place / 'pairs.tsv'}:{line}: 1 columns instead of 2" for line in (8, 28)]


def test_a_packed_file_gives_the_same_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a tokenizer that is given, which is that of the other run."""
    (place / "pairs.tsv").write_text(pairs())
    with gzip.open(place / "pairs.tsv.gz", "wt") as file:
        file.write(pairs())
    path = written(place, PAIRS)
    assert main(["train", str(path), "folder=plain"]) == 0
    given = "data.vocabulary.file=plain/tokenizer.json"
    assert main(["train", str(path), "folder=packed", 'data.train=["pairs.tsv.gz"]', given]) == 0
    assert fingerprint(place / "plain", 10) == fingerprint(place / "packed", 10)
    kept = read_run(place / "packed" / "run.toml")
    assert kept.data.train == (str(place / "pairs.tsv.gz"),)  # whatever folder it is resumed from
    assert "the run has no test data" in refused(capsys, "evaluate", "plain", "--split", "test")


def test_a_number_that_is_none(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layer and the lines of the batch are named, and the checkpoint of before is whole and can be resumed."""
    (place / "pairs.tsv").write_text(pairs())
    calls = iter(range(10**6))
    plain = FeedForward.forward

    def poisoned(self: FeedForward, x: torch.Tensor) -> torch.Tensor:
        y = plain(self, x)
        return y / 0 if self.training and next(calls) >= 14 else y  # two in a step: that of the encoder, in step 7

    with monkeypatch.context() as patch:
        patch.setattr(FeedForward, "forward", poisoned)
        told = refused(capsys, "train", str(written(place, PAIRS)), "folder=run")
    assert "step 7: non-finite value, first in the output of encoder.0.ffn (FeedForward)" in told
    assert re.search(rf"batch of step 7: {re.escape(str(place / 'pairs.tsv'))}:\d+, ", told)
    assert "loss = nan" in told
    assert steps(place / "run") == [5]
    assert not find_damage(place / "run" / "checkpoints" / "step-000005")
    assert main(["resume", "run"]) == 0
    assert steps(place / "run") == [5, 10]


def test_what_the_optimizer_refuses_leaves_no_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the run would be there, and could neither be begun again nor resumed."""
    path = written(place)
    told = refused(capsys, "train", str(path), f"folder={place / 'run'}", 'train.rates={"nowhere.*" = 0.1}')
    assert "no weight matches this name" in told
    assert tree(place) == {"tiny.toml"}
