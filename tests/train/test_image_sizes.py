"""Image classifiers read images as they are, unless a run file says otherwise: their size, up to a limit; colours."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regard
from regard.cli.app import main
from regard.modalities.images.survey import ImageSurvey, patch_for
from tests.train.runs import fingerprint, written

SMALL = ["model.dim=16", "model.depth=1", "model.heads=2", "model.hidden=16", "train.steps=4", "train.evaluate=4"]
QUICK = [*SMALL, "train.save=2", "train.threads=1", "data.batch=8", "schedule.warmup=1"]
LUCK = np.random.default_rng(0)


def images(place: Path, width: int, height: int, mode: str = "RGB", count: int = 24) -> Path:
    for i in range(count):
        folder = place / "images" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = LUCK.integers(0, 128, (height, width, 3), np.uint8) + 100 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(folder / f"{i}.png")
    return place / "images"


def template(place: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["init", "classify"]) == 0
    return written(place, capsys.readouterr().out, "run.toml")


def checked(path: Path, capsys: pytest.CaptureFixture[str], *changes: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["check", str(path), "--json", *QUICK, *changes]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("size", "mode", "shape"),
    [
        ((40, 32), "RGB", [8, 3, 32, 32]),
        ((28, 28), "L", [8, 1, 28, 28]),
        ((300, 200), "RGB", [8, 3, 128, 128]),
        ((6, 5), "RGB", [8, 3, 8, 8]),
    ],
)
def test_the_run_file_of_init_follows_the_images(
    place: Path, capsys: pytest.CaptureFixture[str], size: tuple[int, int], mode: str, shape: list[int]
) -> None:
    images(place, *size, mode)
    report = checked(template(place, capsys), capsys)
    assert shape in report["shapes"].values()
    colours = "grey" if mode == "L" else "colour"
    side = f"{shape[2]} x {shape[3]}"
    assert report["facts"]["images"] == f"{size[0]} x {size[1]}, {colours}; read as {side}, {colours}"
    small = [note for note in report["warnings"] if "made small" in note]
    assert bool(small) == (min(size) > 256)


def test_what_the_run_file_sets_is_as_it_sets_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images(place, 300, 200)
    path = template(place, capsys)
    report = checked(path, capsys, "model.image=28", "model.patch=4", "model.channels=1")
    assert [8, 1, 28, 28] in report["shapes"].values()
    told = " ".join(report["warnings"])
    assert "images of 300 x 200 pixels are made small: the model reads 28 x 28" in told
    assert "images in colour are made grey" in told
    report = checked(path, capsys, "data.size=0", "model.image=32", "model.patch=8")
    assert [8, 3, 32, 32] in report["shapes"].values()
    assert checked(path, capsys, "data.size=0")["facts"]["images"].endswith("read as 224 x 224, colour")


@pytest.mark.parametrize("name", ["swin-tiny", "mixer-s16", "resnet-20", "cnn-small", "deit-tiny"])
def test_other_families_follow_them_too(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    images(place, 40, 36)
    text = '[task]\nkind = "classify"\n[data]\nkind = "images"\ntrain = "images"\nsize = "auto"\nbatch = 4\n'
    text += f'[model]\nname = "{name}"\n'
    sizes = {
        "swin-tiny": "dim = 8\nheads = [1, 1, 2, 2]\nwindow = 4\n",
        "mixer-s16": "dim = 16\ndepth = 1\n",
        "deit-tiny": "depth = 1\n",
    }
    path = written(place, text + sizes.get(name, "") + "[train]\nsteps = 2\nthreads = 1\n")
    capsys.readouterr()
    assert main(["check", str(path), "--json"]) == 0
    assert [4, 3, 32, 32] in json.loads(capsys.readouterr().out)["shapes"].values()


def test_a_run_that_follows_its_images_is_resumed_and_used(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = images(place, 40, 32)
    path = str(template(place, capsys))
    assert main(["train", path, f"folder={place / 'whole'}", *QUICK]) == 0
    assert main(["train", path, f"folder={place / 'run'}", *QUICK]) == 0
    for made in ("model", "checkpoints/step-000004"):  # as if it had been killed before
        shutil.rmtree(place / "run" / made)
    assert main(["resume", str(place / "run")]) == 0
    assert fingerprint(place / "run", 4) == fingerprint(place / "whole", 4)
    model = regard.load(place / "run")
    assert (model.config.image, model.config.patch, model.config.channels) == (32, 4, 3)
    assert main(["classify", str(place / "run"), str(folder), "--out", str(place / "preds.csv")]) == 0
    assert len((place / "preds.csv").read_text().splitlines()) == 25


def test_patches_and_sides() -> None:
    assert [ImageSurvey(side, 1000, False, False).side() for side in (3, 8, 30, 47, 100, 4000)] == [
        8,
        8,
        28,
        32,
        96,
        128,
    ]
    assert [patch_for(side, 16) for side in (8, 28, 32, 64, 96, 128, 224)] == [1, 4, 4, 8, 12, 16, 16]
    assert patch_for(32, 4) == 4


def test_images_with_captions_are_told_of_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(images(place, 40, 36).rglob("*.png"))
    rows = [f"{one.relative_to(place)},a {one.parent.name} on grass\n" for one in files]
    (place / "captions.csv").write_text("image,caption\n" + "".join(rows))
    text = '[task]\nkind = "describe"\n[data]\nkind = "captions"\ntrain = "captions.csv"\nbatch = 4\n'
    text += '[data.vocabulary]\nkind = "words"\nsize = 50\n[model]\nname = "captioner-tiny"\nimage = 16\npatch = 4\n'
    text += "dim = 16\ndepth = 1\ndecoder_depth = 1\nheads = 2\nhidden = 16\n[train]\nsteps = 2\nthreads = 1\n"
    capsys.readouterr()
    assert main(["check", str(written(place, text)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["facts"]["images"] == "40 x 36, colour; read as 16 x 16, colour"
    assert any("made small: the model reads 16 x 16" in note for note in report["warnings"])
    assert report["tables"][0]["first"][0] == {"image": "images/cat/0.png", "caption": "a cat on grass"}
