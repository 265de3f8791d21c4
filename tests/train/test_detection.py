"""Detection from a run file to boxes in an image: trained, measured, used, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.building import build
from regard.cli.app import main
from regard.errors import InputError
from regard.modalities.boxes.detection import PAPER_WEIGHTS, Detect
from regard.modalities.boxes.detector import Thing
from regard.modalities.boxes.drawing import class_colour, draw_boxes
from regard.modalities.boxes.shapes import SHAPE_NAMES, Shapes
from regard.modalities.images.processor import Images
from regard.model import Model
from regard.run.settings import read_run
from regard.run.training import reopen_run
from regard.train.optimizers import SGD, build_optimizer, set_rate
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
    assert {"AP", "AP50", "AP75", *(f"AP50 {kind}" for kind in SHAPE_NAMES)} <= held_out[-1].keys()
    model = regard.load(run)
    assert (model.task, model.labels, model.config.classes) == ("detect", SHAPE_NAMES, 3)
    assert model.processor == Images(size=32, fit="within", mean=(0.5,), std=(0.25,))
    capsys.readouterr()
    assert main(["evaluate", str(run), "--split", "test"]) == 0
    told = capsys.readouterr().out
    assert all(f"AP50 {kind}\t" in told for kind in SHAPE_NAMES)
    assert "AP75\t" in told


def test_a_backbone_has_a_rate_of_its_own(run: Path) -> None:
    job = reopen_run(run)
    optimizer = build_optimizer(SGD(rate=1.0), job.model.net, job.run.train.rates)
    set_rate(optimizer, 0.5)
    rates = {id(x): group["lr"] for group in optimizer.param_groups for x in group["params"]}
    for name, x in job.model.net.named_parameters():
        assert rates[id(x)] == (0.05 if name.startswith("backbone.") else 0.5)
    with pytest.raises(InputError, match="no weight matches this name") as caught:
        build_optimizer(SGD(), job.model.net, {"spine.*": 0.1})
    assert "backbone*" in caught.value.expected


def test_run_files_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, reason in {
        "model.name=vit-base": "a vit model cannot be trained to detect; expected a detr model",
        "task={kind='classify'}": "data of kind 'shapes' cannot be used for the task 'classify'",
        "data.side=4": "side = 4 must be at least 16",
        "task.nothing=0": "nothing = 0.0 must be greater than 0",
        'train.rates={"backbone.*"="slow"}': "must be a number >= 0",
        "model.classes=2": "model.classes is too small",
        "model.classes=4": "4 classes, 3 labels: square, disc, triangle",
    }.items():
        assert reason in refused(capsys, "check", str(written(tmp_path, RUN)), change)


def coco(folder: Path) -> dict[str, Any]:
    """Ten small images with a cell each; their boxes are not written yet."""
    (folder / "images").mkdir()
    data: dict[str, Any] = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "cell"}]}
    for i in range(10):
        scene(folder / "images" / f"{i}.png", i % 5, (60 + i, 40))
        data["images"].append({"id": i, "file_name": f"{i}.png"})
        data["annotations"].append({"id": i, "image_id": i, "category_id": 1, "bbox": [5, 5, 20, 20]})
    return data


def boxes_run(folder: Path, data: dict[str, Any]) -> str:
    """A run file of these boxes."""
    (folder / "boxes.json").write_text(json.dumps(data))
    files = f'train = "{folder / "boxes.json"}"\nimages = ["{folder / "images"}"]'
    shapes = 'kind = "shapes"\nrows = 64\nside = 32\nbatch = 4'
    return RUN.replace(shapes, f'kind = "boxes"\n{files}\nlongest = 32\nshare = 0.3\nbatch = 4')


def test_boxes_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """COCO's JSON and a folder; then a part of them is held out, and train is changed by chance."""
    text = boxes_run(tmp_path, coco(tmp_path)).replace("save = 6", "save = 6\nsplit = 2")
    folder = trained(tmp_path / "run", text=text)
    job = reopen_run(folder)
    assert {name: len(x.source) for name, x in job.sources.splits.items()} == {"train": 7, "held_out": 3}
    train, held_out = (job.sources.splits[name] for name in ("train", "held_out"))
    assert not torch.equal(train.collate([0], 0).images, train.collate([0], 1).images)
    assert torch.equal(held_out.collate([0], 0).images, held_out.collate([0], 1).images)
    assert regard.load(folder).labels == ("cell",)
    (tmp_path / "images" / "3.png").write_bytes(b"changed")
    assert "the data has changed" in refused(capsys, "evaluate", str(folder))


def tiny() -> Model:
    """A detector as others publish them: of frozen batch norms, and images of which the shorter side is told."""
    sizes = {"width": 8, "layer": "basic", "depths": (1, 1), "dims": (8, 8), "classes": 4, "queries": 5}
    net = build("detr-resnet-50", **sizes, dim=16, depth=1, heads=2, hidden=16)
    images = Images(size=48, fit="within", shorter=32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    return replace(net.eval(), processor=images, labels=("a", "b", "c", "d"))


@pytest.mark.parametrize("theirs", [False, True])
def test_a_detector_learns_other_classes(theirs: bool, run: Path, tmp_path: Path) -> None:
    """From a run of ours, and from a folder of Hugging Face; pixels are the numbers that its weights know."""
    base = run
    if theirs:
        base = tmp_path / "theirs"
        regard.export(tiny(), base)
        assert (base / "preprocessor_config.json").exists()
    text = boxes_run(tmp_path, coco(tmp_path))
    before, rest = text.split("[model]\n")
    text = f'{before}[start]\nmodel = "{base}"\n[train]\n' + rest.split("[train]\n")[1]
    model = regard.load(trained(tmp_path / "run", text=text))
    known = regard.load(base)
    assert (model.labels, model.config.classes, model.config.dim) == (("cell",), 1, 16)
    assert isinstance(model.processor, Images)
    assert isinstance(known.processor, Images)
    assert (model.processor.mean, model.processor.std) == (known.processor.mean, known.processor.std)
    assert model.net.box[0].weight.shape == known.net.box[0].weight.shape  # type: ignore[index, union-attr]


def test_a_folder_of_theirs_detects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tiny()
    regard.export(made, tmp_path / "theirs")
    told = json.loads((tmp_path / "theirs" / "preprocessor_config.json").read_text())
    assert told["image_processor_type"] == "DetrImageProcessor"
    assert told["size"] == {"shortest_edge": 32, "longest_edge": 48}
    back = regard.load(tmp_path / "theirs")
    assert back.processor == made.processor
    image = scene(tmp_path / "a.png", size=(90, 40))
    one, two = (x.detect(image, threshold=0.0) for x in (made, back))
    assert [thing.box for thing in one.things] == [thing.box for thing in two.things]
    assert main(["detect", str(tmp_path / "theirs"), str(image), "--threshold", "0"]) == 0
    assert "5 detected" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "wide"), [("o.webp", 16384), ("o.jpg", 65535)])
def test_what_a_kind_of_file_cannot_hold_is_refused(
    name: str, wide: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    regard.save(tiny(), tmp_path / "model")
    Image.new("RGB", (wide, 2)).save(tmp_path / "wide.png")
    assert main(["detect", str(tmp_path / "model"), str(tmp_path / "wide.png"), "--out", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert f"{wide} x 2" in told
    assert ".png" in told
    assert {path.name for path in tmp_path.iterdir()} == {"model", "wide.png"}


def test_a_detector_of_ours_goes_out_with_frozen_norms(run: Path, tmp_path: Path) -> None:
    """Its statistics no longer change in use; read again, it says the same."""
    regard.export(run, tmp_path / "out")
    ours, back = regard.load(run), regard.load(tmp_path / "out")
    assert (ours.config.backbone_norm, back.config.backbone_norm) == ("batch", "frozen")
    images = torch.rand(2, 3, 40, 48)
    one, two = (model.net(images) for model in (ours, back))
    torch.testing.assert_close(one.logits, two.logits)
    torch.testing.assert_close(one.boxes, two.boxes)


def test_images_and_boxes_are_bad_each_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One image of ten is missing: a tenth of the images, however many boxes the others have."""
    data = coco(tmp_path)
    data["annotations"] += [
        {"id": 100 + i, "image_id": i % 10, "category_id": 1, "bbox": [5, 5, 20 + i, 20]} for i in range(30)
    ]
    (tmp_path / "images" / "3.png").unlink()
    path = str(written(tmp_path, boxes_run(tmp_path, data)))
    assert "1 of 10 images are bad (10.00%)" in refused(capsys, "check", path, "data.bad=0.05")
    assert main(["check", path, "data.bad=0.1"]) == 0
    scene(tmp_path / "images" / "3.png", 3, (63, 40))
    data["annotations"][0]["bbox"] = [5, 5, 0, 0]
    data["annotations"][1]["bbox"] = [5, 5, float("nan"), 5]
    path = str(written(tmp_path, boxes_run(tmp_path, data)))
    told = refused(capsys, "check", path, "data.bad=0.04")
    assert "too many bad boxes" in told
    assert "2 of 40 boxes are bad (5.00%)" in told
    assert "annotation 1: bbox: not finite: [5, 5, nan, 5]" in told


def test_clipped_boxes_are_a_warning_and_no_bad_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = coco(tmp_path)
    for i in (2, 7):
        data["annotations"][i]["bbox"] = [50, 30, 30, 8]
    path = str(written(tmp_path, boxes_run(tmp_path, data)))
    capsys.readouterr()
    assert main(["check", path, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    told = "2 of 10 boxes extend beyond their images and are clipped: annotation 2; annotation 7"
    assert report["bad_rows"] == 0
    assert told in report["warnings"]
    trained(tmp_path / "run", text=Path(path).read_text())
    assert told in "".join(capsys.readouterr())


def test_data_that_nothing_can_be_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = coco(tmp_path)
    file = boxes_run(tmp_path, data | {"annotations": []})
    assert "has no boxes" in refused(capsys, "check", str(written(tmp_path, file)))
    crowd = [one | {"iscrowd": 1} for one in data["annotations"]]
    file = boxes_run(tmp_path, data | {"annotations": crowd})
    assert "has no boxes" in refused(capsys, "check", str(written(tmp_path, file)))
    path = written(tmp_path, boxes_run(tmp_path, data))
    for change in (f"data.held_out={tmp_path / 'boxes.json'}", f"data.test={tmp_path / 'boxes.json'}"):
        told = refused(capsys, "check", str(path), change)
        assert "training images are also in the split" in told
        assert "10 of 10" in told
    assert "has duplicates" in refused(capsys, "check", str(path), "data.splits=['a', 'a']")


def test_check_tells_of_more_things_than_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = coco(tmp_path)
    data["annotations"] += [{"id": 50 + i, "image_id": 2, "category_id": 1, "bbox": [i, i, 9, 9]} for i in range(6)]
    data["annotations"] += [
        {"id": 90 + i, "image_id": 4, "category_id": 1, "bbox": [i, i, 9, 9], "iscrowd": 1} for i in range(6)
    ]
    text = boxes_run(tmp_path, data).replace("share = 0.3", f'held_out = "{tmp_path / "other.json"}"')
    other = {**data, "images": [{"id": 1, "file_name": "other.png"}], "annotations": data["annotations"][1:2]}
    scene(tmp_path / "images" / "other.png")
    (tmp_path / "other.json").write_text(json.dumps(other))
    capsys.readouterr()
    assert main(["check", str(written(tmp_path, text)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    warning = report["warnings"][-1]  # before it are those of few held-out examples and of the warm-up
    assert warning.startswith("1 images contain more objects than model.queries = 5, up to 7: ")
    assert "2.png (7)" in warning
    assert report["shapes"]["classes"][0] == 4  # ten images in batches of four, and two are left over
    assert main(["check", str(written(tmp_path, text)), "model.queries=7", "train.split=2"]) == 0
    told = capsys.readouterr().out
    assert "more objects than" not in told
    assert "note        the model has batch norm layers, which normalize each of the 2 pieces" in told


def test_a_class_without_a_box_is_null_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = coco(tmp_path)
    data["categories"].append({"id": 2, "name": "none"})
    folder = trained(tmp_path / "run", text=boxes_run(tmp_path, data))
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--json"]) == 0

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)["metrics"]
    assert found["AP50 none"] is None
    assert isinstance(found["AP50 cell"], float)


def test_the_last_layer_alone_is_heard(run: Path) -> None:
    net = build("detr-small").net
    batch = reopen_run(run).sources.splits["train"].collate([0, 1], 0)
    terms = [
        set(next(iter(Detect(net, SHAPE_NAMES, weights).losses(batch, 0))).terms)
        for weights in (PAPER_WEIGHTS, replace(PAPER_WEIGHTS, earlier=0.0))
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
    assert all(thing.label in SHAPE_NAMES for thing in one.things)
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
    with pytest.raises(InputError, match="this detr cannot classify"):
        model.classify(str(small))
    with pytest.raises(InputError, match="this vit cannot detect objects"):
        build("vit-base", image=16, patch=8, dim=8, depth=1, heads=1, hidden=8).detect(small)


def test_the_verb(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    regard.save(sure(regard.load(run)), folder)
    one, two = scene(tmp_path / "a.png"), scene(tmp_path / "b.png", 1)
    capsys.readouterr()
    assert main(["detect", str(folder), str(one), "--out", str(tmp_path / "out.png"), "--threshold", "0.1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{one}  80 x 60  5 detected, drawn to")
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (640, 480)
    assert main(["detect", str(folder), str(one), str(two), "--out", str(tmp_path / "all"), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [Path(x["out"]).name for x in found] == ["a.png", "b.png"]
    assert [(x["width"], x["scale"]) for x in found] == [(80, 8.0)] * 2
    assert {"label", "score", "box"} == found[0]["boxes"][0].keys() if found[0]["boxes"] else True
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["a.png", "b.png"]


def test_what_the_verb_refuses(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = scene(tmp_path / "a.png")
    (tmp_path / "bad.png").write_bytes(image.read_bytes()[:100])
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "other.png").symlink_to(image)
    before, names = image.read_bytes(), sorted(path.name for path in tmp_path.iterdir())
    for words, reason in {
        ("bad.png",): "cannot be read",
        ("text.png",): "unsupported image format",
        ("gone.png",): "cannot be read",
        ("a.png", "--out", "out.txt"): "unsupported image format",
        ("a.png", "--out", "no/out.png"): "folder not found",
        ("a.png", "--out", "a.png"): "an input image would be overwritten",
        ("a.png", "--threshold", "2"): "threshold",
        ("a.png", "bad.png", "--out", "a.png"): "--out must be a folder for several images",
        ("a.png", "--out", "."): "an input image would be overwritten",
        ("a.png", "bad.png", "--out", "."): "an input image would be overwritten",
        ("other.png", "--out", "."): "an input image would be overwritten",  # as a.png, which is the same file
    }.items():
        paths = [str(tmp_path / word) if "." in word and word[0] not in "-0123456789" else word for word in words]
        assert reason in refused(capsys, "detect", str(run), *paths), words
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert image.read_bytes() == before


def test_labels_are_drawn_within_the_image_and_apart() -> None:
    things = [Thing("square", 0.9, (0, 0, 20, 20), 0), Thing("disc", 0.8, (1, 1, 21, 21), 1)]
    plain = Image.new("RGB", (64, 48), "black")
    drawn = draw_boxes(plain, things)
    assert drawn.size == (640, 480)
    assert plain.getbbox() is None  # the image itself stays as it was
    colours = {drawn.getpixel((x, y)) for x in range(0, 640, 2) for y in range(0, 480, 2)}
    for kind in (0, 1):
        assert tuple(int(class_colour(kind)[i : i + 2], 16) for i in (1, 3, 5)) in colours
    assert len({class_colour(i) for i in range(30)}) == 30
