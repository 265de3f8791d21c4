"""Detection from a run file to boxes in an image: trained, measured, used, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.data.images import Images
from regard.data.shapes import KINDS, Shapes
from regard.errors import InputError
from regard.look.annotating import annotated, tint
from regard.model import Model, build
from regard.run.settings import read_run
from regard.run.start import reopen
from regard.tasks.detecting import PAPER, Detect
from regard.tasks.finding import Thing
from regard.train.optimizers import SGD, optimizer_of, set_rate
from tests.train.runs import lines, refused, trained, written

RUN = """
[task]
kind = "detect"
[data]
kind = "shapes"
rows = 64
side = 32
batch = 4
[model]
name = "detr-small"
width = 8
dims = [8, 8]
dim = 16
depth = 1
heads = 2
hidden = 16
queries = 5
[train]
steps = 6
log = 2
evaluate = 6
save = 6
threads = 1
[train.rates]
"backbone.*" = 0.1
[optimizer]
kind = "adamw"
rate = 1e-3
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("detection")
    return trained(folder, text=RUN)


def scene(path: Path, i: int = 0, size: tuple[int, int] = (80, 60)) -> Path:
    pixels = Shapes(5, 0)[i].image.permute(1, 2, 0).numpy()
    Image.fromarray(pixels).resize(size).save(path)
    return path


# ----------------------------------------------------------------------------------------------------------------- runs


def test_a_run_learns_is_measured_and_keeps_its_classes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = [line["loss"] for line in lines(run) if "held_out" not in line]
    parts = [line for line in lines(run) if "held_out" not in line]
    assert len(losses) == 3
    weighed = sum(weight * parts[0][name] for name, weight in (("label", 1), ("box", 5), ("overlap", 2)))
    assert losses[0] == pytest.approx(weighed, rel=0.05)  # one layer; a mean of two steps' means
    held_out = [line["held_out"] for line in lines(run) if "held_out" in line]
    assert {"AP", "AP50", "AP75", *(f"AP50 {kind}" for kind in KINDS)} <= held_out[-1].keys()
    model = regard.load(run)
    assert (model.task, model.labels, model.config.classes) == ("detect", KINDS, 3)
    assert model.processor == Images(size=32, fit="within", mean=(0.5,), std=(0.25,))
    capsys.readouterr()
    assert main(["evaluate", str(run), "--split", "test"]) == 0
    told = capsys.readouterr().out
    assert all(f"AP50 {kind}\t" in told for kind in KINDS)
    assert "AP75\t" in told


def test_a_backbone_has_a_rate_of_its_own(run: Path) -> None:
    job = reopen(run)
    optimizer = optimizer_of(SGD(rate=1.0), job.model.net, job.run.train.rates)
    set_rate(optimizer, 0.5)
    rates = {id(x): group["lr"] for group in optimizer.param_groups for x in group["params"]}
    for name, x in job.model.net.named_parameters():
        assert rates[id(x)] == (0.05 if name.startswith("backbone.") else 0.5)
    with pytest.raises(InputError, match="no weight has such a name") as caught:
        optimizer_of(SGD(), job.model.net, {"spine.*": 0.1})
    assert "backbone*" in caught.value.expected


def test_run_files_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, reason in {
        "model.name=vit-base": "a vit cannot detect; it takes a model of the detr family",
        "task={kind='classify'}": "data of kind 'shapes' cannot serve the task 'classify'",
        "data.side=4": "side = 4 is not at least 16",
        "task.nothing=0": "nothing = 0",
        'train.rates={"backbone.*"="slow"}': "is no number from 0 on",
        "model.classes=2": "model.classes is too small",
    }.items():
        assert reason in refused(capsys, "check", str(written(tmp_path, RUN)), change)


def test_boxes_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """COCO's JSON and a folder; then a part of them is held out, and train is changed by chance."""
    (tmp_path / "images").mkdir()
    data = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "cell"}]}
    for i in range(10):
        scene(tmp_path / "images" / f"{i}.png", i % 5, (60 + i, 40))
        data["images"].append({"id": i, "file_name": f"{i}.png"})  # type: ignore[attr-defined]
        box = {"id": i, "image_id": i, "category_id": 1, "bbox": [5, 5, 20, 20]}
        data["annotations"].append(box)  # type: ignore[attr-defined]
    (tmp_path / "boxes.json").write_text(json.dumps(data))
    table = 'kind = "boxes"\ntrain = "boxes.json"\nimages = ["images"]\nlongest = 32\nshare = 0.3\nbatch = 4'
    shapes = 'kind = "shapes"\nrows = 64\nside = 32\nbatch = 4'
    text = RUN.replace(shapes, table).replace("save = 6", "save = 6\nsplit = 2")
    folder = trained(
        tmp_path / "run", f"data.train={tmp_path / 'boxes.json'}", f'data.images=["{tmp_path / "images"}"]', text=text
    )
    job = reopen(folder)
    assert {name: len(x.source) for name, x in job.sources.splits.items()} == {"train": 7, "held_out": 3}
    train, held_out = (job.sources.splits[name] for name in ("train", "held_out"))
    assert not torch.equal(train.collate([0], 0).images, train.collate([0], 1).images)
    assert torch.equal(held_out.collate([0], 0).images, held_out.collate([0], 1).images)
    assert regard.load(folder).labels == ("cell",)
    (tmp_path / "images" / "3.png").write_bytes(b"changed")
    assert "the data has changed" in refused(capsys, "evaluate", str(folder))


def test_the_last_layer_alone_is_heard(run: Path) -> None:
    net = build("detr-small").net
    batch = reopen(run).sources.splits["train"].collate([0, 1], 0)
    terms = [
        set(next(iter(Detect(net, KINDS, weights).losses(batch, 0))).terms)
        for weights in (PAPER, replace(PAPER, earlier=0.0))
    ]
    assert terms[0] - terms[1] == {"label 0", "box 0", "overlap 0"}


def test_the_template_is_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["init", "detect"]) == 0
    path = written(tmp_path, capsys.readouterr().out)
    assert read_run(path).task.kind == "detect"


# ------------------------------------------------------------------------------------------------------------------ use


def sure(model: Model) -> Model:
    """Nothing is said to be nothing."""
    with torch.no_grad():
        model.net.label.bias[-1] = -50.0  # type: ignore[union-attr, operator]
    return model


def test_boxes_are_in_pixels_of_the_image_as_it_was(run: Path, tmp_path: Path) -> None:
    model = sure(regard.load(run))
    small, large = scene(tmp_path / "a.png", size=(80, 60)), scene(tmp_path / "b.png", size=(320, 240))
    one, two = model.detect([str(small), large], threshold=0.0)
    assert (one.size, two.size, len(one.things)) == ((80, 60), (320, 240), 5)
    assert all(thing.label in KINDS for thing in one.things)
    assert [thing.score for thing in one.things] == sorted((thing.score for thing in one.things), reverse=True)
    for thing in two.things:
        left, top, right, bottom = thing.box
        assert 0 <= left <= right <= 320
        assert 0 <= top <= bottom <= 240
    alone = model.detect(Image.open(large), threshold=0.0)
    assert alone.image == ""
    for x, y in zip(alone.things, two.things, strict=True):  # images of several sizes do not change each other
        assert x.box == pytest.approx(y.box, abs=1e-2)
    assert not model.detect(small, threshold=0.999).things
    with pytest.raises(InputError, match="threshold"):
        model.detect(small, threshold=1.5)
    with pytest.raises(InputError, match="no labels"):
        model.classify(str(small))
    with pytest.raises(InputError, match="finds no boxes"):
        build("vit-base", image=16, patch=8, dim=8, depth=1, heads=1, hidden=8).detect(small)


def test_the_verb(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    regard.save(sure(regard.load(run)), folder)
    one, two = scene(tmp_path / "a.png"), scene(tmp_path / "b.png", 1)
    capsys.readouterr()
    assert main(["detect", str(folder), str(one), "--out", str(tmp_path / "out.png"), "--threshold", "0.1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{one}  80 x 60  5 found, drawn in")
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (640, 480)
    assert main(["detect", str(folder), str(one), str(two), "--out", str(tmp_path / "all"), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [Path(x["out"]).name for x in found] == ["a.png", "b.png"]
    assert {"label", "score", "box"} == found[0]["boxes"][0].keys() if found[0]["boxes"] else True
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["a.png", "b.png"]


def test_what_the_verb_refuses(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = scene(tmp_path / "a.png")
    (tmp_path / "bad.png").write_bytes(image.read_bytes()[:100])
    (tmp_path / "text.png").write_text("hello")
    for words, reason in {
        ("bad.png",): "cannot be read",
        ("text.png",): "no image of a kind",
        ("gone.png",): "cannot be read",
        ("a.png", "--out", "out.txt"): "no name of an image file",
        ("a.png", "--out", "no/out.png"): "no such folder",
        ("a.png", "--out", "a.png"): "written over",
        ("a.png", "--threshold", "2"): "threshold",
        ("a.png", "bad.png", "--out", "a.png"): "into a folder",
    }.items():
        paths = [str(tmp_path / word) if "." in word and word[0] not in "-0123456789" else word for word in words]
        assert reason in refused(capsys, "detect", str(run), *paths), words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "bad.png", "text.png"]


def test_labels_are_drawn_within_the_image_and_apart() -> None:
    things = [Thing("square", 0.9, (0, 0, 20, 20), 0), Thing("disc", 0.8, (1, 1, 21, 21), 1)]
    plain = Image.new("RGB", (64, 48), "black")
    drawn = annotated(plain, things)
    assert drawn.size == (640, 480)
    assert plain.getbbox() is None  # the image itself stays as it was
    colours = {drawn.getpixel((x, y)) for x in range(0, 640, 2) for y in range(0, 480, 2)}
    for kind in (0, 1):
        assert tuple(int(tint(kind)[i : i + 2], 16) for i in (1, 3, 5)) in colours
    assert len({tint(i) for i in range(30)}) == 30
