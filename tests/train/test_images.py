"""Runs that see: what images come in, how they change at random, teachers, HAT, resolutions, and what is refused."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.data import digits as digits_module
from regard.data.digits import Digits, read_digits
from regard.data.images import Images
from regard.data.images import Labelled as Example
from regard.data.loader import Loader
from regard.data.mixing import smoothed
from regard.errors import InputError
from regard.model import Model
from regard.nn.positions import interpolate
from regard.run.augmentation import Augment, Augmented, augmented
from regard.run.beginning import by_places, changed, resized, set_back
from regard.run.imagery import Prepared
from regard.run.job import Renormalised, same_images
from regard.run.trial import check
from regard.tasks.adversarial import PASSES, adversarial_losses
from regard.tasks.classify import Classify, Labelled
from regard.tasks.teacher import Teacher
from regard.tasks.token import hard_distillation, soft_distillation
from regard.train.engine import Engine

from .runs import fingerprint, lines, refused, trained, written

TRAIN = "[train]\nsteps = 4\nlog = 1\nevaluate = 4\nsave = 2\nthreads = 1\n"
VIT = '[model]\nname = "vit-cifar"\nimage = 8\npatch = 4\ndim = 16\ndepth = 1\nheads = 2\nhidden = 32\n'
DEIT = VIT.replace("vit-cifar", "deit-tiny")
CNN = '[model]\nname = "cnn-small"\ndepths = [1]\ndims = [8]\nwidth = 8\n'
RECIPE = Augment(area=0.3, mirror=0.5, ways=2, erasing=0.5, mixup=0.8, cutmix=1.0)
WORDS = "[data.augment]\narea = 0.3\nmirror = 0.5\nways = 2\nerasing = 0.5\nmixup = 0.8\ncutmix = 1.0\n"
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def sheet(folder: Path, count: int = 30, side: int = 8, name: str = "train") -> None:
    """Tiles of three colours, five in a row."""
    numbers = np.random.default_rng(0)
    targets = np.arange(count) % 3
    colours = np.array(list(COLOURS.values()))[targets]
    tiles = np.clip(colours[:, None, None] + numbers.integers(-25, 25, (count, side, side, 3)), 0, 255)
    pixels = tiles.reshape(count // 5, 5, side, side, 3).swapaxes(1, 2).reshape(count // 5 * side, 5 * side, 3)
    Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}.png")
    np.save(folder / f"{name}_labels.npy", targets.astype(np.uint8))


def run_file(model: str = VIT, *, task: str = "", data: str = "", augment: str = "") -> str:
    names = json.dumps(list(COLOURS))
    source = f'kind = "images"\ntrain = "train.png"\ntile = 8\nlabels = {names}\nbatch = 6\nshare = 0.2\n{data}'
    return f'[task]\nkind = "classify"\n{task}[data]\n{source}{augment}{model}{TRAIN}'


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


# ------------------------------------------------------------------------------------------------------- augmentation


def pieces(data: Augmented, step: int, *, split: int = 1, world: int = 1, workers: int = 0) -> dict[Any, Labelled]:
    """Every row of a step as the engine gets it, by the row's number."""
    found: dict[int, Labelled] = {}
    rows = data.rows(step)
    for rank in range(world):
        ((_, made),) = Loader(data, [step], split=split, world=world, rank=rank, seed=3, workers=workers)
        for i, piece in enumerate(made):
            own = rows[rank::world][i::split].tolist()
            if piece.weight:
                for j, row in enumerate(own):
                    found[row] = Labelled(piece.batch.inputs[j], piece.batch.labels[j])
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
    held = Prepared(Noise(3, 20), Images(size=8, filter="bicubic"))
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


# -------------------------------------------------------------------------------------------------------------- data


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
    assert len(report["warnings"]) == (split > 1)
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
        assert f"images of train stand in {split} too" in told
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
    assert "labels are called train, val: does data.train name the folder above" in capsys.readouterr().out


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
    with pytest.raises(InputError, match=r"pip install 'regard\[vision\]'"):
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
    report = check(place / "tiny.toml", (f"folder={place / 'other'}",))
    assert (report.splits["train"].rows, report.splits["held_out"].rows, report.splits["test"].rows) == (1350, 150, 297)
    assert report.shapes == {"inputs": (32, 1, 8, 8), "labels": (32,)}


# ------------------------------------------------------------------------------------------------------------- teachers


def seer(name: str, images: Images, **changes: Any) -> Model:
    torch.manual_seed(0)
    return replace(
        regard.build(name, classes=3, **changes).eval(), processor=images, task="classify", labels=tuple(COLOURS)
    )


def teacher(images: Images) -> Model:
    return seer("cnn-small", images, depths=(1,), dims=(8,), width=8)


def student() -> Any:
    torch.manual_seed(1)
    return regard.build("deit-tiny", classes=3, image=8, patch=4, dim=16, depth=1, heads=2, hidden=32).net


@pytest.mark.parametrize("mixed", [False, True])
def test_each_head_has_its_own_lesson(mixed: bool) -> None:
    """The token's loss is what ``tasks.token`` says, of numbers of classes and of shares."""
    net, other, inputs = student(), teacher(Images(size=8)).net, torch.randn(5, 3, 8, 8)
    labels = torch.randn(5, 3).softmax(-1) if mixed else torch.tensor([0, 1, 2, 1, 0])
    said, theirs = net.answers(inputs), other(inputs)
    for lesson, wanted in (
        (Teacher(other, 0.5, 1.0, "hard"), hard_distillation(said.label, said.teacher, labels, theirs)),
        (
            Teacher(other, 0.1, 3.0),
            soft_distillation(said.label, said.teacher, labels, theirs, share=0.1, temperature=3.0),
        ),
    ):
        (loss,) = Classify(net, list("abc"), 0.0, lesson).losses(Labelled(inputs, labels), 0)
        found = sum(term.weight * term.sum for term in loss.terms.values())
        torch.testing.assert_close(found, wanted)
    plain = Classify(net, list("abc"))
    (loss,) = plain.losses(Labelled(inputs, labels), 0)
    wanted = torch.nn.functional.cross_entropy(net(inputs), labels, reduction="sum")
    torch.testing.assert_close(loss.terms["loss"].sum, wanted)  # without a teacher both heads are one


def test_a_teacher_is_shown_the_same_image_in_numbers_that_it_knows() -> None:
    ours, theirs = Images(size=8), Images(size=8, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    other, mine = teacher(theirs), seer("cnn-small", ours, depths=(1,), dims=(8,), width=8)
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    net = same_images("there", other, mine)
    assert isinstance(net, Renormalised)
    torch.testing.assert_close(net(ours.normalise(pixels)), other.net(theirs.normalise(pixels)), rtol=1e-4, atol=1e-5)
    assert same_images("there", teacher(ours), mine) is not net
    for wrong in (Images(size=16), None):
        with pytest.raises(InputError, match="teacher"):
            same_images("there", replace(other, processor=wrong), mine)


@pytest.mark.parametrize("lesson", ["usual", "soft"])
def test_a_deit_learns_from_a_convolutional_net(place: Path, lesson: str, capsys: pytest.CaptureFixture[str]) -> None:
    sheet(place)
    regard.save(teacher(Images(size=8)), place / "teacher")
    text = run_file(DEIT, task=f'teacher = "./teacher"\nlesson = "{lesson}"\n', augment=WORDS)
    run = trained(place, text=text)
    assert {"loss", "teacher"} <= lines(run)[0].keys()
    assert regard.load(run / "model").family == "deit"
    regard.save(teacher(Images(size=16)), place / "larger")
    told = refused(capsys, "train", "tiny.toml", "task.teacher=./larger", "folder=b")
    assert "different sizes" in told
    regard.save(replace(teacher(Images(size=8)), labels=("a", "b", "c")), place / "others")
    assert "does not do what the student" in refused(capsys, "train", "tiny.toml", "task.teacher=./others", "folder=b")
    assert not (place / "b").exists()


# ------------------------------------------------------------------------------------------------------------------ HAT


def test_harder_images_in_the_first_steps() -> None:
    """Each loss is that of algorithm 1; the weights go one step after the last."""
    net, inputs, labels = student().eval(), torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
    task = Classify(net, list("abc"), 0.1, harder=2)
    found: list[float] = []
    for loss in task.losses(Labelled(inputs, labels), 1):
        found.append(loss.terms["loss"].sum.item())
        assert loss.update == (len(found) == PASSES)
        loss.terms["loss"].sum.backward()
    wanted: list[float] = []
    for one in adversarial_losses(net, inputs, smoothed(labels, 3, 0.1)):
        wanted.append(one.item())
        one.backward()
    assert found == pytest.approx(wanted)
    assert len(found) == PASSES
    assert len(list(task.losses(Labelled(inputs, labels), 2))) == 1
    with torch.no_grad():  # as where the engine looks for what was not finite
        assert len(list(task.losses(Labelled(inputs, labels), 0))) == 1


def test_a_run_with_harder_images(place: Path) -> None:
    sheet(place)
    run = trained(place, text=run_file(task="adversarial = 0.5\n"))
    other = trained(place / "other", f"data.train={place / 'train.png'}", text=run_file())
    here, there = ([x["loss"] for x in lines(folder) if "loss" in x] for folder in (run, other))
    assert here[0] > there[0]  # the mean of three passes, two of which count half as much again
    assert len(here) == len(there) == 4


# ----------------------------------------------------------------------------------------------------------- resolution


def test_what_goes_by_places_is_interpolated() -> None:
    small = regard.build("vit-cifar", image=16, dim=16, depth=1, heads=2, hidden=32, pool="class").net
    large = regard.build("vit-cifar", image=24, dim=16, depth=1, heads=2, hidden=32, pool="class").net
    found = resized(small, large)["positions"]
    assert torch.equal(found, interpolate(small.positions, (4, 4), (6, 6)))  # type: ignore[arg-type]
    assert torch.equal(found[:, 0], small.positions[:, 0])  # type: ignore[index]
    sizes: dict[str, Any] = {"dim": 8, "depth": (1, 1), "heads": (2, 4), "hidden": 16}
    one = regard.build("swin-cifar", window=4, **sizes).net
    two = regard.build("swin-cifar", window=8, image=64, **sizes).net
    tables = {name: x for name, x in resized(one, two).items() if x.shape != one.state_dict()[name].shape}
    assert tables
    assert all(x.shape == two.state_dict()[name].shape for name, x in tables.items())
    assert all(torch.equal(x, one.state_dict()[name]) for name, x in resized(one, one).items())


def test_who_can_be_given_images_of_another_size() -> None:
    sizes: dict[str, Any] = {"image": 16, "dim": 16, "depth": 1, "hidden": 32}
    assert by_places(regard.build("vit-cifar", heads=2, **sizes).net)
    assert by_places(regard.build("swin-cifar", window=4, dim=8, depth=(1, 1), heads=(2, 4), hidden=16).net)
    assert not by_places(regard.build("cnn-small", depths=(1,), dims=(8,), width=8).net)
    mixer: Any = regard.build("mixer-s32", patch=4, tokens=8, **sizes).net
    assert not by_places(mixer)
    told = set_back(replace(mixer.config, image=32, classes=3), mixer)
    assert told.startswith("set model.image = 16, not 32. Only the head, what has no weights")


def test_swin_v2_measures_its_offsets_as_it_learned_to() -> None:
    base = regard.build("swinv2-tiny", image=32, patch=4, window=4, dim=8, depth=(1, 1), heads=(2, 4), hidden=16)
    run = SimpleNamespace(task=SimpleNamespace(kind="classify"), data=SimpleNamespace(kind="images"))
    found = changed(base, {"image": 64, "window": 8}, run)  # type: ignore[arg-type]
    assert (found.window, found.trained) == (8, (4, 4))
    assert changed(base, {"dropout": 0.1}, run).trained is None  # type: ignore[arg-type]


def test_fine_tuning_at_another_resolution(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Normalised as the weights know it; the same function of places."""
    sheet(place)
    first = trained(place, "data.mean=[0.4]", "data.deviation=[0.3]", text=run_file())
    text = run_file('[start]\nmodel = "./run"\n[model]\nimage = 16\n')
    assert main(["train", str(written(place, text, "finer.toml")), "folder=finer", "train.steps=1"]) == 0
    assert "images of 16 x 16 instead of 8 x 8" in "".join(capsys.readouterr())
    found = regard.load(place / "finer" / "model")
    assert found.config.image == 16
    assert found.processor == Images(size=16, mean=(0.4,), std=(0.3,))
    assert found.net.positions.shape == (1, 16, 16)  # type: ignore[union-attr]
    assert main(["resume", "finer"]) == 0
    text = run_file('[start]\nmodel = "./run"\n[model]\ndim = 32\n')
    told = refused(capsys, "train", str(written(place, text, "wider.toml")), "folder=wider", "model.image=16")
    assert "do not fit" in told
    assert "set model.dim = 16, not 32. Only the head, model.image and what has no weights" in told
    assert regard.load(first / "model").config.image == 8


# -------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data.augment.strength=11", "strength = 11"),
        ("data.augment.area=0", "area = 0"),
        ("data.augment.mirror=2", "mirror = 2"),
        ("data.augment.mixup=-1", "mixup = -1"),
        ("data.augment.copies=4", "batch = 6 is not a multiple of augment.copies = 4"),
        ("data.augment.cutmx=1", "did you mean 'cutmix'"),
        ("data.tile=0", "set data.tile"),
        ("data.tile=7", "cannot be cut into such tiles"),
        ("data.size=9", "differ in the size of images"),
        ("data.labels=['red']", "bad"),
        ("data.labels=['red','red','blue']", "labels: 'red' is there more than once"),
        ("model.classes=4", "4 classes, 3 labels: red, green, blue"),
        ("model.name=cnn-small", "unknown key"),
        ("task.adversarial=2", "adversarial = 2"),
        ("task.lesson=gentle", "lesson"),
        ("task.teacher=./none", "no such model"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(
    place: Path, change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet(place)
    written(place, run_file(augment="[data.augment]\nmirror = 0.1\n"))
    assert words in refused(capsys, "train", "tiny.toml", "folder=run", change)
    assert not (place / "run").exists()


def test_each_problem_of_a_run_file_by_itself(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And one of two keys is told of that which the command line has changed."""
    sheet(place)
    written(place, run_file() + "many = 3\n")
    capsys.readouterr()
    assert main(["train", "tiny.toml", "model.patch=3", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["what"].startswith("tiny.toml: ")
    one, two = error["problems"]
    assert (one["where"].startswith("tiny.toml:"), one["key"]) == (True, "train.many")
    assert one["text"].startswith("unknown key")
    assert (two["where"], two["key"]) == ("override model.patch=3", "model.image")
    assert all(f"{x['where']}: {x['key']}: {x['text']}" in error["what"].split("\n") for x in (one, two))


def test_labels_that_are_not_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("red", "green"):
        (place / "images" / name).mkdir(parents=True)
        for i in range(6):
            Image.new("RGB", (8, 8), name).save(place / "images" / name / f"{i}.png")
    written(place, run_file().replace('train = "train.png"\ntile = 8', 'train = "images"'))
    told = refused(capsys, "train", "tiny.toml", "data.labels=['red', 'mouse']")
    assert "there are labels here that are not in data.labels" in told
    assert "got: green" in told
    assert "add them to data.labels" in told


def test_what_does_not_go_together(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet(place)
    regard.save(teacher(Images(size=8)), place / "teacher")
    written(place, run_file(task='teacher = "./teacher"\nadversarial = 0.5\n'))
    assert "one or the other" in refused(capsys, "train", "tiny.toml")
    written(place, run_file(CNN))
    assert "set data.size" in refused(capsys, "train", "tiny.toml")
    written(place, run_file('[start]\nmodel = "recall"\n'))
    assert "a gpt cannot classify" in refused(capsys, "train", "tiny.toml")
    text = '[task]\nkind = "classify"\nadversarial = 0.5\n[data]\nkind = "labelled"\ntrain = ["a.tsv"]\n'
    written(place, text + '[model]\nname = "bert-tiny"\n')
    assert "no pixels" in refused(capsys, "train", "tiny.toml")


def test_init_explains_how_images_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "classify"]) == 0
    out = capsys.readouterr().out
    for words in (
        "[data.augment]",
        "mixup = 0.0",
        "a of Beta(a, a)",
        "adversarial = 0.0",
        "lesson = ",
        "NAME_labels.npy",
    ):
        assert words in out


def test_an_augment_knows_its_own_limits() -> None:
    for wrong in ({"area": 1.5}, {"ways": -1}, {"switch": -0.1}, {"copies": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Augment(**wrong)  # type: ignore[arg-type]
