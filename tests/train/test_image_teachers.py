"""Images in runs: teachers, HAT, other resolutions, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.modalities.images.augmentation import Augment
from regard.modalities.images.mixing import smoothed
from regard.modalities.images.processor import Images
from regard.modalities.images.teaching import Renormalised, same_images
from regard.model import Model
from regard.nn.positions import interpolate
from regard.run.weights import by_places, changed, resized, set_back
from regard.tasks.adversarial import PASSES, adversarial_losses
from regard.tasks.classify import Classify, ClassifyBatch
from regard.tasks.teacher import Teacher
from regard.tasks.token import hard_distillation, soft_distillation
from tests.train.imaged import CNN, COLOURS, VIT, WORDS, run_file, sheet

from .runs import lines, refused, trained, written

DEIT = VIT.replace("vit-cifar", "deit-tiny")


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
        (loss,) = Classify(net, list("abc"), 0.0, lesson).losses(ClassifyBatch(inputs, labels), 0)
        found = sum(term.weight * term.sum for term in loss.terms.values())
        torch.testing.assert_close(found, wanted)
    plain = Classify(net, list("abc"))
    (loss,) = plain.losses(ClassifyBatch(inputs, labels), 0)
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
    assert "image sizes or channels" in told
    regard.save(replace(teacher(Images(size=8)), labels=("a", "b", "c")), place / "others")
    assert "the head or the labels of the teacher differ" in refused(
        capsys, "train", "tiny.toml", "task.teacher=./others", "folder=b"
    )
    assert not (place / "b").exists()


def test_harder_images_in_the_first_steps() -> None:
    """Each loss is that of algorithm 1; the weights go one step after the last."""
    net, inputs, labels = student().eval(), torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
    task = Classify(net, list("abc"), 0.1, harder=2)
    found: list[float] = []
    for loss in task.losses(ClassifyBatch(inputs, labels), 1):
        found.append(loss.terms["loss"].sum.item())
        assert loss.update == (len(found) == PASSES)
        loss.terms["loss"].sum.backward()
    wanted: list[float] = []
    for one in adversarial_losses(net, inputs, smoothed(labels, 3, 0.1)):
        wanted.append(one.item())
        one.backward()
    assert found == pytest.approx(wanted)
    assert len(found) == PASSES
    assert len(list(task.losses(ClassifyBatch(inputs, labels), 2))) == 1
    with torch.no_grad():  # as where the engine looks for what was not finite
        assert len(list(task.losses(ClassifyBatch(inputs, labels), 0))) == 1


def test_a_run_with_harder_images(place: Path) -> None:
    sheet(place)
    run = trained(place, text=run_file(task="adversarial = 0.5\n"))
    other = trained(place / "other", f"data.train={place / 'train.png'}", text=run_file())
    here, there = ([x["loss"] for x in lines(folder) if "loss" in x] for folder in (run, other))
    assert here[0] > there[0]  # the mean of three passes, two of which count half as much again
    assert len(here) == len(there) == 4


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
    assert told.startswith("set model.image = 16, not 32. Only the head, settings without weights")


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
    assert "image size 16 x 16 instead of 8 x 8" in "".join(capsys.readouterr())
    found = regard.load(place / "finer" / "model")
    assert found.config.image == 16
    assert found.processor == Images(size=16, mean=(0.4,), std=(0.3,))
    assert found.net.positions.shape == (1, 16, 16)  # type: ignore[union-attr]
    assert main(["resume", "finer"]) == 0
    text = run_file('[start]\nmodel = "./run"\n[model]\ndim = 32\n')
    told = refused(capsys, "train", str(written(place, text, "wider.toml")), "folder=wider", "model.image=16")
    assert "do not fit" in told
    assert "set model.dim = 16, not 32. Only the head, model.image and settings without weights" in told
    assert regard.load(first / "model").config.image == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data.augment.strength=11", "strength = 11"),
        ("data.augment.area=0", "area = 0.0 must be greater than 0"),
        ("data.augment.mirror=2", "mirror = 2"),
        ("data.augment.mixup=-1", "mixup = -1.0 must be at least 0"),
        ("data.augment.copies=4", "batch = 6 is not a multiple of augment.copies = 4"),
        ("data.augment.cutmx=1", "did you mean 'cutmix'"),
        ("data.tile=0", "set data.tile"),
        ("data.tile=7", "not a multiple of the tile size"),
        ("data.size=9", "data.size and model.image differ"),
        ("data.labels=['red']", "bad"),
        ("data.labels=['red','red','blue']", "duplicate labels: 'red'"),
        ("model.classes=4", "4 classes, 3 labels: red, green, blue"),
        ("model.name=cnn-small", "unknown key"),
        ("task.adversarial=2", "adversarial = 2"),
        ("task.lesson=gentle", "lesson"),
        ("task.teacher=./none", "unknown model"),
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
    assert "some labels do not occur in data.labels" in told
    assert "got: green" in told
    assert "add them to data.labels" in told


def test_what_does_not_go_together(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet(place)
    regard.save(teacher(Images(size=8)), place / "teacher")
    written(place, run_file(task='teacher = "./teacher"\nadversarial = 0.5\n'))
    assert "adversarial and teacher cannot be combined" in refused(capsys, "train", "tiny.toml")
    written(place, run_file(CNN))
    assert "set data.size" in refused(capsys, "train", "tiny.toml")
    written(place, run_file('[start]\nmodel = "recall"\n'))
    assert "a gpt model cannot be trained to classify" in refused(capsys, "train", "tiny.toml")
    text = '[task]\nkind = "classify"\nadversarial = 0.5\n[data]\nkind = "labelled"\ntrain = ["a.tsv"]\n'
    written(place, text + '[model]\nname = "bert-tiny"\n')
    assert "adversarial training needs images" in refused(capsys, "train", "tiny.toml")


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
