"""Images in runs: what is learned, augmentation, data."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.data.loader import Loader
from regard.errors import InputError
from regard.modalities.images import digits as digits_module
from regard.modalities.images.augmentation import Augment, Augmented, augmented
from regard.modalities.images.batching import PreparedRows
from regard.modalities.images.digits import Digits, read_digits
from regard.modalities.images.mixing import smoothed
from regard.modalities.images.processor import Images
from regard.modalities.images.processor import LabelledImage as Example
from regard.run.check import check_run
from regard.tasks.classify import ClassifyBatch
from regard.train.engine import Engine
from tests.train.imaged import CNN, COLOURS, TRAIN, VIT, WORDS, run_file, sheet

from .runs import fingerprint, lines, refused, trained, written

RECIPE = Augment(area=0.3, mirror=0.5, ways=2, erasing=0.5, mixup=0.8, cutmix=1.0)


class Noise:
    """Rows: images of any numbers, of three labels."""

    faults = ()
    lengths = None

    def __init__(self, count: int, size: int = 12) -> None:
        self.pixels = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (count, 3, size, size), np.uint8))

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, i: int) -> Example:
        return Example(self.pixels[i], i % 3)

    def where(self, i: int) -> str:
        return f"row {i}"


def pieces(data: Augmented, step: int, *, split: int = 1, world: int = 1, workers: int = 0) -> dict[Any, ClassifyBatch]:
    """Every row of a step as the engine gets it, by the row's number."""
    found: dict[int, ClassifyBatch] = {}
    rows = data.rows(step)
    for rank in range(world):
        ((_, made),) = Loader(data, [step], split=split, world=world, rank=rank, seed=3, workers=workers)
        for i, piece in enumerate(made):
            own = rows[rank::world][i::split].tolist()
            if piece.weight:
                for j, row in enumerate(own):
                    found[row] = ClassifyBatch(piece.batch.inputs[j], piece.batch.labels[j])
    return found


@pytest.mark.parametrize("augment", [RECIPE, replace(RECIPE, copies=2), replace(RECIPE, mixup=0.0, cutmix=0.0)])
def test_no_split_of_a_batch_changes_a_bit(augment: Augment) -> None:
    """Pieces, processes and workers; of the last, smaller batch of an epoch too."""
    data = augmented(Noise(14), Images(size=8), augment, batch=4, classes=3, seed=3)
    for step in (0, 3, 5):
        whole = pieces(data, step)
        assert len(whole) == len(data.rows(step))
        for how in ({"split": 3}, {"world": 2}, {"split": 2, "world": 2}, {"workers": 1}):
            other = pieces(data, step, **how)
            assert other.keys() == whole.keys()
            for row, one in whole.items():
                assert torch.equal(one.inputs, other[row].inputs), (step, how, row)
                assert torch.equal(one.labels, other[row].labels)


def test_images_change_from_step_to_step_and_copies_from_each_other() -> None:
    data = augmented(Noise(8), Images(size=8), replace(RECIPE, copies=2), batch=4, classes=3, seed=0)
    first, again = pieces(data, 0), pieces(data, len(data))
    rows = sorted(first)
    assert [row // 2 for row in rows[::2]] == [row // 2 for row in rows[1::2]]  # both copies are there
    assert not torch.equal(first[rows[0]].inputs, first[rows[1]].inputs)
    assert all(not torch.equal(first[row].inputs, again[row].inputs) for row in first.keys() & again.keys())


def test_mixed_labels_are_shares_of_both_images() -> None:
    plain = augmented(Noise(6), Images(size=12), Augment(), batch=6, classes=3, seed=0)
    mixed = augmented(Noise(6), Images(size=12), Augment(mixup=1.0), batch=6, classes=3, seed=0)
    one, two = plain.collate(plain.rows(0).tolist(), 0), mixed.collate(mixed.rows(0).tolist(), 0)
    assert two.labels.shape == (6, 3)
    assert torch.allclose(two.labels.sum(-1), torch.ones(6))
    share = float(((two.inputs - one.inputs.flip(0)) / (one.inputs - one.inputs.flip(0))).nanmedian())
    assert 0 < share < 1
    torch.testing.assert_close(two.inputs, share * one.inputs + (1 - share) * one.inputs.flip(0), rtol=0, atol=1e-5)
    own = smoothed(one.labels, 3)
    torch.testing.assert_close(two.labels, share * own + (1 - share) * own.flip(0), rtol=0, atol=1e-5)


def test_nothing_is_changed_by_default() -> None:
    data = augmented(Noise(6), Images(size=12), Augment(), batch=6, classes=3, seed=0)
    rows = data.rows(0).tolist()
    batch = data.collate(rows, 0)
    assert torch.equal(batch.inputs, Images().normalise(Noise(6).pixels[rows]))
    assert batch.labels.tolist() == [row % 3 for row in rows]


def test_what_is_held_out_is_whole_and_unchanged(place: Path) -> None:
    sheet(place)
    run = trained(place, text=run_file(augment=WORDS))
    assert lines(run)[-1]["held_out"]["loss"] > 0
    held = PreparedRows(Noise(3, 20), Images(size=8, filter="bicubic"))
    assert held[1].image.shape == (3, 8, 8)
    assert torch.equal(held[1].image, held.images.prepare_pixels(Noise(3, 20).pixels[1].permute(1, 2, 0).numpy()))
    assert (len(held), held.where(2), held[2].label) == (3, "row 2", 2)


def test_the_recipe_is_the_same_after_a_stop(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet(place)
    text = run_file(augment=WORDS + "copies = 2\n").replace('"train.png"', json.dumps(str(place / "train.png")))
    whole = trained(place / "one", text=text)
    path, update = written(place / "two", text), Engine.update

    def stop(self: Engine, *given: object) -> object:
        if self.state.step == 3:
            raise KeyboardInterrupt
        return update(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "update", stop)
    assert main(["train", str(path), f"folder={place / 'two' / 'run'}"]) == 130
    monkeypatch.setattr(Engine, "update", update)
    assert main(["resume", str(place / "two" / "run")]) == 0
    assert fingerprint(place / "two" / "run", 4) == fingerprint(whole, 4)
    split = trained(place / "three", "train.split=3", text=text)
    here, there = ([x["loss"] for x in lines(folder) if "loss" in x] for folder in (split, whole))
    assert here == pytest.approx(there, rel=1e-4)


@pytest.mark.parametrize("model", [CNN, VIT])
def test_a_sheet_is_learned_and_its_model_used(place: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    sheet(place)
    sheet(place, 15, name="test")
    size = "size = 8\n" if model == CNN else ""
    text = run_file(model, data=f'test = "test.png"\n{size}')
    run = trained(place, "train.steps=40", "optimizer.rate=1e-2", "schedule.warmup=5", text=text)
    assert lines(run)[-1]["held_out"]["accuracy"] > 0.9
    assert main(["evaluate", str(run), "--split", "test"]) == 0
    found = regard.load(run / "model")
    assert found.processor == Images(size=8)
    assert found.labels == tuple(COLOURS)
    Image.new("RGB", (30, 20), COLOURS["green"]).save(place / "one.jpg")
    capsys.readouterr()
    assert main(["classify", str(run), "one.jpg", "--top", "3"]) == 0
    assert capsys.readouterr().out.startswith("green ")
    np.save(place / "train_labels.npy", np.zeros(30, np.uint8))
    assert "the data has changed" in refused(capsys, "resume", str(run))


LEVIT = (
    '[model]\nname = "levit-cifar"\nimage = 8\npatch = 4\n'
    "dim = [8, 8]\ndepth = [1, 1]\nheads = [1, 1]\nhead_dim = 4\nhidden = [8, 8]\n"
)


@pytest.mark.parametrize("split", [1, 4])
def test_a_single_image_passes_batch_norms(split: int, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 images in batches of 5 leave one over; 5 in 4 pieces are some of one."""
    sheet(place, 20)
    run = trained(place, "data.batch=5", f"train.split={split}", "train.steps=8", text=run_file(LEVIT))
    assert all(np.isfinite(line["loss"]) for line in lines(run) if "loss" in line)
    capsys.readouterr()
    assert main(["check", "tiny.toml", "data.batch=5", f"train.split={split}", "folder=other", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert sum("batch norm" in warning for warning in report["warnings"]) == (split > 1)
    assert report["shapes"]["labels"] == [5]


def test_folders_of_one_label_and_images_that_were_learned_from(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(6):
        (place / "data" / "cat").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, 0, 0)).save(place / "data" / "cat" / f"{i}.png")
    text = run_file().replace('train = "train.png"\ntile = 8\n', 'train = "data"\n')
    written(place, text.replace(f"labels = {json.dumps(list(COLOURS))}\n", ""))
    assert "all images have the same label" in refused(capsys, "check", "tiny.toml")
    (place / "data" / "dog").mkdir()
    Image.new("RGB", (8, 8)).save(place / "data" / "dog" / "0.png")
    for split in ("held_out", "test"):
        told = refused(capsys, "check", "tiny.toml", f"data.{split}=data")
        assert f"training images are also in the split {split}" in told
        assert "7 of 7" in told
    capsys.readouterr()
    assert main(["check", "tiny.toml"]) == 0
    told = capsys.readouterr().out
    assert "labels      2: cat, dog\n" in told
    assert "folder above" not in told
    (place / "data").rename(place / "train")
    (place / "val").mkdir()
    Image.new("RGB", (8, 8), (9, 9, 9)).save(place / "val" / "0.png")
    capsys.readouterr()
    assert main(["check", "tiny.toml", "data.train=."]) == 0
    assert "labels are named train, val: data.train may point to the parent of the folder" in capsys.readouterr().out


def test_one_large_image_is_made_small_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of a batch stand in memory, each as large as it came."""
    events: list[str] = []

    class Large:
        lengths, faults = None, ()

        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Example:
            events.append("read")
            return Example(torch.zeros(3, 64, 64, dtype=torch.uint8), 0)

        def where(self, i: int) -> str:
            return str(i)

    made = augmented(Large(), Images(size=8), Augment(area=0.5), batch=4, classes=2, seed=0)
    cut = made.change.changed

    def small(*given: Any) -> torch.Tensor:
        events.append("cut")
        return cut(*given)

    monkeypatch.setattr(made.change, "changed", small)
    assert made.collate([0, 1, 2], 0).inputs.shape == (3, 3, 8, 8)
    assert events == ["read", "cut"] * 3


def test_the_digits() -> None:
    table = read_digits()
    assert np.bincount(table[:, -1]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    rows = Digits(Images(size=8, channels=1), 0, 1500)
    assert len(rows) == 1500
    assert rows[0].label == 0
    assert rows[0].image.shape == (1, 8, 8)
    assert rows[0].image[0, 0].tolist() == [round(x * 255 / 16) for x in (0, 0, 5, 13, 9, 1, 0, 0)]
    with pytest.raises(IndexError):
        rows[1500]


def test_digits_without_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(digits_module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install scikit-learn"):
        read_digits()
    monkeypatch.setattr(digits_module, "digits_file", lambda: tmp_path / "digits.csv.gz")
    for raw in (b"", b"no gzip", gzip.compress(b"1,2\n3,4\n"), gzip.compress(b"1,2\n3\n"), gzip.compress(b"\xff")):
        (tmp_path / "digits.csv.gz").write_bytes(raw)
        with pytest.raises(InputError, match="digits"):
            read_digits()


def test_digits_are_learned_without_any_data(place: Path) -> None:
    model = VIT + "channels = 1\n"
    text = f'[task]\nkind = "classify"\n[data]\nkind = "digits"\nbatch = 32\n[data.augment]\narea = 0.7\n{model}{TRAIN}'
    run = trained(place, text=text)
    assert lines(run)[-1]["held_out"]["loss"] < 2.6
    assert regard.load(run / "model").labels == tuple("0123456789")
    report = check_run(place / "tiny.toml", (f"folder={place / 'other'}",))
    assert (report.splits["train"].rows, report.splits["held_out"].rows, report.splits["test"].rows) == (1350, 150, 297)
    assert report.shapes == {"inputs": (32, 1, 8, 8), "labels": (32,)}
