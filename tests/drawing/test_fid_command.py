"""`regard fid`: what it reads, tells and refuses."""

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.cli.app import main

DIGITS = ("--features", "digits")


def save_images(folder: Path, count: int = 12, sides: tuple[int, ...] = (8,), mode: str = "L") -> Path:
    folder.mkdir(parents=True)
    draws = np.random.default_rng(0)
    for i in range(count):
        side = sides[i % len(sides)]
        pixels = draws.integers(256, size=(side, side) if mode == "L" else (side, side, 3)).astype(np.uint8)
        (folder / str(i % 2)).mkdir(exist_ok=True)  # images of labels, in folders of their own
        Image.fromarray(pixels).save(folder / str(i % 2) / f"{i:02d}.png")
    return folder


def told(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main(["fid", *map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out if not code else captured.err


def test_a_set_and_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = save_images(tmp_path / "a")
    lines = told(capsys, folder, folder, *DIGITS).splitlines()
    rows = {line.split("  ")[0]: line for line in lines}
    assert float(rows["FID-c"].split()[1]) < 1e-9  # named so that nobody takes it for a published one
    assert "FID-c:" in rows["network"]
    assert "48 features" in rows["network"]
    assert "8 x 8, bilinear, with antialias" in rows["resize"]
    assert rows["A"].endswith(f"12 images: {folder}")
    assert "IS-c of A" in rows
    assert "note: FID is too large for few images: with 12" in "\n".join(lines)
    assert "singular" in lines[-1]


def test_a_folder_an_archive_an_idx_file_and_a_sheet_are_the_same_images(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = save_images(tmp_path / "a")
    files = sorted(folder.rglob("*.png"))
    pixels = np.stack([np.asarray(Image.open(file)) for file in files])
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(folder))
    idx = tmp_path / "train-images-idx3-ubyte"
    idx.write_bytes(struct.pack(">HBB3I", 0, 8, 3, *pixels.shape) + pixels.tobytes())
    sheet = pixels.reshape(3, 4, 8, 8).transpose(0, 2, 1, 3).reshape(24, 32)
    Image.fromarray(sheet).save(tmp_path / "sheet.png")
    for other in ("a.zip", idx.name, "sheet.png"):
        found = json.loads(told(capsys, folder, tmp_path / other, *DIGITS, "--tile", "8", "--json"))
        assert (found["fid"] < 1e-9, found["b"]["samples"]) == (True, 12), other


def test_json_tells_what_was_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one, two = save_images(tmp_path / "a", 12), save_images(tmp_path / "b", 9, mode="RGB")
    found = json.loads(told(capsys, one, two, *DIGITS, "--batch", "4", "--samples", "7", "--json"))
    assert found["fid"] > 0
    assert not found["published"]
    assert found["antialias"]
    assert found["kid_samples"] == [7, 7]
    assert found["b"]["samples"] == 7
    assert found["b"]["of"] == 9
    assert found["b"]["sizes"] == [{"width": 8, "height": 8, "images": 7}]
    assert 1 <= found["a"]["inception_score"]["whole"] <= 10
    assert "B: 7 of 7 images in colour are made grey" in found["notes"]


def test_grey_images_and_several_sizes_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, run_of_colours: Path
) -> None:
    one, two = save_images(tmp_path / "a", sides=(8, 8, 20)), save_images(tmp_path / "b", mode="RGB")
    found = json.loads(told(capsys, one, two, "--features", run_of_colours, "--json"))
    assert "A: 12 of 12 images are grey: all three colours are set to their shade" in found["notes"]
    assert "A: images of 2 sizes, from 8 x 8 to 20 x 20: each is resized by itself" in found["notes"]
    assert not [note for note in found["notes"] if note.startswith("B:")]


@pytest.fixture
def run_of_colours(tmp_path: Path) -> Path:
    from regard.folders import save
    from regard.modalities.images.processor import Images
    from regard.model import Model
    from regard.zoo import FAMILIES

    family = FAMILIES["vit"]
    save(Model("vit", family.net(family.example()), Images(size=8)), tmp_path / "colours")
    return tmp_path / "colours"


def test_bad_input_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, run_of_colours: Path) -> None:
    good, lonely = save_images(tmp_path / "a"), save_images(tmp_path / "one", 1)
    (tmp_path / "empty").mkdir()
    broken = save_images(tmp_path / "broken", 3)
    (broken / "0" / "02.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")

    def refused(*words: object) -> str:
        return told(capsys, *words, *DIGITS, code=2)

    assert "image folder or .zip archive not found" in refused(good, tmp_path / "nowhere")
    assert "no images found" in refused(good, tmp_path / "empty")
    assert "needs at least 2 images" in refused(good, lonely)
    assert "needs at least 2 images" in refused(good, good, "--samples", "1")
    assert "fewer images than asked for" in refused(good, good, "--samples", "13")
    assert "02.png" in refused(good, broken)
    assert "a model folder has no images" in refused(good, run_of_colours)
    assert "--batch must be at least 1" in refused(good, good, "--batch", "0")
    assert "--weights belongs to the network inception" in refused(good, good, "--weights", "x")
    assert "unknown model" in told(capsys, good, good, "--features", "nothing", code=2)


def test_without_the_published_weights_it_says_where_they_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    folder = save_images(tmp_path / "a")
    error = told(capsys, folder, folder, code=2)
    assert "SHA-256 0dae6507" in error
    assert "--features MODEL" in error
