"""What a demanding reader of the training engine once found broken, and must never be broken again."""

import json
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.cli.app import main
from regard.data.fingerprints import fingerprint as fingerprint_of
from regard.data.loader import spared
from regard.errors import ElsewhereError, InputError
from regard.modalities.sources import source_of
from regard.modalities.text.tasks.language import Language
from regard.run import result, training
from regard.run.job import job_of, plan_of
from regard.run.machine import lock_folder
from regard.run.settings import read_run
from regard.train.assess import assessment
from regard.train.distribution import ALONE, World, add_gradients
from regard.train.engine import Engine
from regard.train.progress import SilentReporter
from regard.train.shards import fill_weights
from regard.train.update import Update
from tests.train.runs import RUN, fingerprint, lines, refused, trained, tree, written
from tests.train.toys import Counting, engine, tiny_gpt

SMOKE = RUN + '[smoke]\nset = ["train.steps=6", "train.log=1"]\nfactor = 2.0\n'


def stopped_after(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine 'fails' when this step is done, before anything else is written."""
    original = Engine.collect

    def collect(engine: Engine, update: Any) -> None:
        original(engine, update)
        if engine.state.step == step:
            raise ConnectionAbortedError

    monkeypatch.setattr(Engine, "collect", collect)


# ------------------------------------------------------------------------------------------------------ a short variant


def test_a_short_variant_removes_only_its_own(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(place, SMOKE, "foo.toml")
    real = trained(place / "other", text=RUN).rename(place / "runs-real")
    (place / "runs").mkdir()
    real.rename(place / "runs" / "foo-smoke")
    before = tree(place / "runs" / "foo-smoke")
    assert "the folder already contains a run" in refused(capsys, "train", str(path), "--smoke")
    assert tree(place / "runs" / "foo-smoke") == before


def test_a_short_variant_can_be_tried_again_but_not_while_it_runs(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(place, SMOKE, "foo.toml")
    for _ in range(2):
        assert main(["train", str(path), "--smoke"]) == 0
    folder = place / "runs" / "foo-smoke"
    (folder / "mark").touch()
    with lock_folder(folder, ALONE):
        assert "another process is training this run" in refused(capsys, "train", str(path), "--smoke")
    assert (
        "file not found"
        in refused(capsys, "train", str(path), "--smoke", "data={kind='pairs', train=['x.tsv']}").lower()
    )
    assert (folder / "mark").exists(), "the old one is gone only when the new one can begin"
    assert main(["train", str(path), "--smoke"]) == 0
    assert not (folder / "mark").exists()


# -------------------------------------------------------------------------------------------------------- the same bits


WORDS = RUN.replace(
    'kind = "reverse"\nrows = 200\nlongest = 5\nbudget = 300',
    'kind = "pairs"\ntrain = ["p.tsv"]\nshare = 0.1\nbudget = 300\n'
    'vocabulary = {kind = "words", size = 20, vectors = "word2vec"}',
)


def test_word_vectors_outlive_a_crash_before_the_first_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (200, 4))
    (place / "p.tsv").write_text("".join(f"{(t := ' '.join(f'w{i}' for i in row))}\t{t}\n" for row in rows))
    path = written(place, WORDS)
    assert main(["train", str(path), "folder=whole"]) == 0
    with monkeypatch.context() as patch:
        stopped_after(2, patch)
        assert main(["train", str(path), "folder=parts"]) == 1
    assert not any((place / "parts").glob("checkpoints/step-*"))
    assert main(["resume", "parts"]) == 0
    assert fingerprint(place / "parts") == fingerprint(place / "whole")


def test_a_setting_outlives_its_kind(place: Path) -> None:
    path = written(place)
    for order in (("optimizer.momentum=0.5", "optimizer=sgd"), ("optimizer=sgd", "optimizer.momentum=0.5")):
        assert read_run(path, order).optimizer.momentum == 0.5  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------- what is measured


def test_an_unfinished_average_is_measured_as_one_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loss and BLEU are of the same weights."""
    folder = trained(place, "train.moving=0.9999", "train.average=1")
    shutil.rmtree(folder / "model")
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--split", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["resume", str(folder)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--split", "test", "--json"]) == 0
    final = json.loads(capsys.readouterr().out)
    assert found["weights"].startswith("the best checkpoint so far")
    assert final["weights"] == "the final model"
    assert {key: found[key] for key in found if key != "weights"} == {
        key: final[key] for key in final if key != "weights"
    }


def test_a_prolonged_run_is_measured_as_it_is_now(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(place)
    run = folder / "run.toml"
    run.write_text(run.read_text().replace("steps = 20", "steps = 40"))
    with monkeypatch.context() as patch:
        stopped_after(33, patch)
        assert main(["resume", str(folder)]) == 1
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == "the best checkpoint so far, step 32"


def test_the_card_speaks_of_the_weights_that_are_there(place: Path) -> None:
    """Not of the best ones, where those are damaged."""
    folder = trained(place, "train.average=1")
    best = folder / "checkpoints" / "step-000020"
    assert "Weights of step 20. On held-out data: loss" in (folder / "model" / "card.md").read_text()
    shutil.rmtree(folder / "model")
    content = bytearray((best / "net.safetensors").read_bytes())
    content[-1] ^= 1
    (best / "net.safetensors").write_bytes(bytes(content))
    assert main(["resume", str(folder)]) == 0
    card = (folder / "model" / "card.md").read_text()
    assert "of step 16" in card or "of step 20" in card
    net, job = regard.load(folder / "model").net, training.reopen_run(folder)
    again = training.engine_of(job, ALONE, SilentReporter())
    fill_weights(again.task.parts["net"], net.state_dict())
    assert again.held_out is not None
    assert f"{again.evaluate(again.held_out)[0]['loss']:.4g}" in card


def test_float16_never_writes_infinities(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    original = result.filled

    def large(*given: Any) -> torch.nn.Module:
        net = original(*given)
        next(net.parameters()).data[0, 0] = 1e5
        return net

    monkeypatch.setattr(result, "filled", large)
    folder = trained(place, "train.stored=float16")
    assert "embed.weight is out of range for float16" in capsys.readouterr().out
    assert float(regard.load(folder / "model").net.embed.weight.detach()[0, 0]) == 1e5  # type: ignore[union-attr,index]


def test_a_damaged_model_is_made_again(place: Path) -> None:
    folder = trained(place)
    before = fingerprint(folder)
    (folder / "model" / "model.safetensors").unlink()
    (folder / ".model.left").mkdir()
    assert main(["resume", str(folder)]) == 0
    assert fingerprint(folder) == before
    assert not (folder / ".model.left").exists()


# --------------------------------------------------------------------------------------------------------- changed data


def test_other_images_of_the_same_size_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "idx"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(bytes(1000))
    before = fingerprint_of(folder)
    (folder / "train-images-idx3-ubyte").write_bytes(bytes(999) + b"x")
    assert fingerprint_of(folder) != before


def test_of_a_large_folder_names_sizes_tables_and_some_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.fingerprints.WHOLE", 100)
    monkeypatch.setattr("regard.data.fingerprints.PIECES", 2)
    for i in range(5):
        (tmp_path / f"{i}.png").write_bytes(bytes([i]) * 50)
    (tmp_path / "labels.tsv").write_bytes(b"a\tb\n")
    before = fingerprint_of(tmp_path)
    (tmp_path / "1.png").write_bytes(b"z" * 50)
    assert fingerprint_of(tmp_path) == before  # not among those that are read
    (tmp_path / "labels.tsv").write_bytes(b"a\tc\n")
    assert fingerprint_of(tmp_path) != before


# ------------------------------------------------------------------------------------------------------------ in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("train.threads=100000",), "train.threads = 100000"),
        (("model.name=gpt-small",), "model.name: a gpt model cannot be trained to translate"),
        (("model.name=vit-tiny",), "model.name: a vit model cannot be trained to translate"),
        (("data.rows=10000000000000",), "10000000000000 is too large"),
        (("data={kind='pairs', train=7}",), "7 is not a list of strings"),
    ],
)
def test_refused_in_words(
    place: Path, capsys: pytest.CaptureFixture[str], changes: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, "train", str(written(place)), *changes)


def test_the_line_of_a_model_that_cannot_do_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(place, RUN.replace("transformer-small", "bert-tiny"))
    line = path.read_text().splitlines().index('name = "bert-tiny"') + 1
    assert f"tiny.toml:{line}: model.name: a bert model cannot be trained to translate" in refused(
        capsys, "check", str(path)
    )


def test_too_little_memory_is_no_fault(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 123 bytes")

    monkeypatch.setattr(training, "make_job", full)
    told = refused(capsys, "train", str(written(place)))
    assert "out of memory" in told
    assert "123 bytes" in told


def test_a_killed_worker_is_told_in_words() -> None:
    def killed() -> Any:
        yield 1
        raise RuntimeError("DataLoader worker (pid 12) is killed by signal: Killed. ")

    made = spared(killed())
    assert next(made) == 1  # type: ignore[comparison-overlap]
    with pytest.raises(InputError, match="data loader worker was killed"):
        next(made)


def test_a_path_with_spaces_can_be_pasted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(place / "a b")
    assert f"regard resume '{place / 'a b' / 'run'}'" in refused(
        capsys, "train", str(written(place)), f"folder={place / 'a b' / 'run'}", "seed=1"
    )


def test_one_bad_first_line_is_a_bad_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "p.tsv").write_text("no tab\n" + "a b\tb a\n" * 300)
    path = written(place, WORDS.replace(', vectors = "word2vec"', ""))
    assert main(["check", str(path)]) == 0
    assert "p.tsv:1: " in capsys.readouterr().out
    (place / "p.tsv").write_text("\n\n")
    assert "the file has no rows" in refused(capsys, "check", str(path))


def test_files_that_only_inform_stop_nobody(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained(place)
    run = folder / "run.toml"
    run.write_text(run.read_text().replace("steps = 20", "steps = 24"))
    (folder / "environment.json").write_text("{")
    (folder / "metrics.jsonl").unlink()
    assert main(["resume", str(folder)]) == 0
    assert "metrics.jsonl is missing" in capsys.readouterr().out
    assert [line["step"] for line in lines(folder)] == [21, 24, 24]


def test_check_tries_the_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "file").touch()
    assert "the run folder is not writable" in refused(capsys, "check", str(written(place)), "folder=file/run")


def test_home_is_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place / "home"))
    assert main(["train", str(written(place)), "folder = ~/run"]) == 0
    assert (place / "home" / "run" / "model").is_dir()
    assert not (place / "~").exists()


def test_the_process_that_knows_where_speaks(tmp_path: Path) -> None:
    """Of two, one whose own rows are well has nothing to tell."""

    class Second(World):
        def sum(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def least(self, number: int) -> int:
            return min(number, 1)

    trained = engine(tmp_path)
    trained.world = Second(0, 2)
    with pytest.raises(ElsewhereError, match="process 1 reports the location"):
        raise trained.not_finite("net", broken(), [])


def broken() -> Update:
    update = Update(3, {}, False)
    update.sums, update.norms = {"loss": float("nan")}, {"norm": float("nan")}
    return update


def test_weights_follow_from_the_seed(place: Path) -> None:
    path = written(place)

    def weights(seed: int) -> torch.Tensor:
        run = read_run(path, (f"seed={seed}",))
        job = job_of(run, place / "run", place)
        return torch.cat([x.detach().flatten() for x in job.model.net.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_what_is_held_out_is_not_trained_on(place: Path) -> None:
    (place / "p.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(200)))
    run = read_run(written(place, WORDS))
    splits = source_of(run.data).open(plan_of(run, place)).splits
    train, held_out = ({rows[i] for i in range(len(rows))} for rows in (splits["train"], splits["held_out"]))
    assert len(held_out) == 20
    assert len(train) == 180
    assert not train & held_out


def test_an_unfinished_run_says_how_to_go_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of before: it has nothing that its model could be built from."""
    folder = trained(place)
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / "blueprint")
    assert "not finished, or its model/ folder is missing" in refused(capsys, "translate", "-m", str(folder), "one two")


class Quiet(World):
    """One of several processes, whose sums nobody adds."""

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.parametrize("size", [2, 4])
def test_every_batch_is_measured_once(size: int) -> None:
    """By however many processes, also where they cannot all have as many."""

    class Sums(Language):
        def metrics(self, sums: Mapping[str, torch.Tensor]) -> dict[str, float]:
            return {name: float(x) for name, x in sums.items()}

    task, data = Sums(tiny_gpt().double()), Counting(24, budget=60)
    assert len(data) % size
    whole, _ = assessment(task, data, ALONE, nullcontext)
    parts = [assessment(task, data, Quiet(rank, size), nullcontext)[0] for rank in range(size)]
    assert {name: sum(part[name] for part in parts) for name in whole} == pytest.approx(whole, rel=1e-9)


def test_a_gradient_that_only_another_process_has() -> None:
    """It counts here as zero, so that all add up the same weights; one that nobody has stays away."""
    used, unused, nobody = (torch.nn.Parameter(torch.zeros(size)) for size in (2, 3, 4))
    used.grad = torch.tensor([1.0, 2.0])
    others = iter([torch.tensor([1.0, 1.0, 0.0]), torch.tensor([10.0, 20.0, 3.0, 4.0, 5.0])])

    class Two(World):
        def sum(self, x: torch.Tensor) -> torch.Tensor:
            return x + next(others)

    add_gradients([used, unused, nobody], Two(1, 2))
    assert used.grad.tolist() == [11.0, 22.0]
    assert unused.grad is not None
    assert unused.grad.tolist() == [3.0, 4.0, 5.0]
    assert nobody.grad is None
