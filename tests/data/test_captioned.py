"""Images with captions from a table: which caption has which image, what is left out and why, what is held out."""

import csv
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from regard.data.faults import check_fault_share
from regard.data.files import table_rows
from regard.data.locations import open_place
from regard.errors import InputError
from regard.modalities.captions.captioned import CaptionedImages, hold_out_images, open_captions
from regard.modalities.captions.sources.files import KIND
from regard.modalities.images.processor import Images

IMAGES = Images(size=4)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def colour(i: int) -> tuple[int, int, int]:
    """No two images are alike."""
    return 10 * i, 255 - 10 * i, i


def photos(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True)
    for i in range(count):
        Image.new("RGB", (6, 5), colour(i)).save(folder / f"{i}.png")
    return folder


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return path


def table(path: Path, rows: Sequence[tuple[str, str]], *, names: tuple[str, str] = ("image", "caption")) -> Path:
    """By its name a csv, tsv or jsonl; the caption stands before the image, so that columns count."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({names[1]: text, names[0]: name}) + "\n" for name, text in rows))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",", lineterminator="\n")
            writer.writerows([("note", names[1], names[0]), *(("x", text, name) for name, text in rows)])
    return path


def read(path: Path, folder: Path, images: Images = IMAGES, learned: frozenset[Path] = frozenset()) -> CaptionedImages:
    return open_captions(table_rows(path, ["image", "caption"]), open_place(folder), images, learned)


def paired(rows: CaptionedImages) -> list[str]:
    """Every caption, once its image was seen to be the one that it names by its number."""
    for i in range(len(rows)):
        image, caption = rows[i]
        assert image.shape == (3, rows.images.size, rows.images.size)
        assert tuple(image[:, 1, 0].tolist()) == colour(int(caption.split()[-1])), (caption, rows.where(i))
        assert rows.caption(i) == caption
    return [rows.caption(i) for i in range(len(rows))]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("packed", [False, True])
def test_each_caption_has_its_own_image_whatever_is_left_out_before_it(form: str, packed: bool, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", 6)
    (folder / "cut.png").write_bytes((folder / "3.png").read_bytes()[:50])
    (folder / "text.png").write_text("no image")
    lines = [
        ("5.png", "photo 5"),
        ("none.png", "photo 6"),  # 2
        ("0.png", "photo 0"),
        ("3.png", " "),  # 4
        ("cut.png", "photo 3"),  # 5
        (" ./3.png ", " a photo, again 3 "),
        ("text.png", "photo 4"),  # 7
        ("../photos/1.png", "photo 1"),  # 8
        ("3.png", "photo 3"),
        ("2.png", "photo 2"),
    ]
    place = zipped(folder) if packed else folder
    rows = read(table(tmp_path / f"captions.{form}", lines), place)
    assert paired(rows) == ["photo 5", "photo 0", "a photo, again 3", "photo 3", "photo 2"]
    assert rows.by_image() == {"5.png": [0], "0.png": [1], "3.png": [2, 3], "2.png": [4]}
    head = 0 if form == "jsonl" else 1  # the names of the columns
    told = {fault.line - head: fault.reason for fault in rows.faults}
    assert told.keys() == {2, 4, 5, 7, 8}
    assert "none.png: cannot be read: " in told[2]
    assert "caption" in told[4]
    assert "is empty" in told[4]
    assert "cut.png: the image is corrupt" in told[5]
    assert "text.png: unsupported image format" in told[7]
    assert told[8] == "../photos/1.png: " + ("cannot be read: the archive has no such file" if packed else LEADS_OUT)
    assert rows.where(2) == f"{tmp_path / f'captions.{form}'}:{6 + head}"
    assert rows.lengths.tolist() == [[len(text.encode())] for text in ("photo 5", "photo 0", *BYTES)]
    with pytest.raises(IndexError):
        rows[5]
    with pytest.raises(InputError, match="too many bad rows"):
        check_fault_share(rows.faults, 10, 0.1)


LEADS_OUT = "the path points outside the folder"
BYTES = (" a photo, again 3 ", "photo 3", "photo 2")  # as they stand in the file


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_a_column_that_is_not_there(form: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", 2)
    path = table(tmp_path / f"captions.{form}", [("0.png", "photo 0")], names=("images", "caption"))
    if form == "jsonl":
        rows = read(path, folder)
        assert [str(fault) for fault in rows.faults] == [f"{path}:1: missing key 'image'"]
        with pytest.raises(InputError, match="the data has no valid row"):
            check_fault_share(rows.faults, 1)
        return
    with pytest.raises(InputError, match="the header has no column 'image'") as caught:
        read(path, folder)
    assert caught.value.fix == "did you mean 'images'?"
    rows = open_captions(table_rows(path, [3, 2]), open_place(folder), IMAGES)
    assert [fault.line for fault in rows.faults] == [1]  # without names, the first line is a row like any other
    assert paired(rows) == ["photo 0"]


def test_an_image_is_held_out_with_all_of_its_captions(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", 10)
    lines = [(("" if j % 2 else "./") + f"{i}.png", f"way {j} of photo {i}") for j in range(5) for i in range(10)]
    rows = read(table(tmp_path / "captions.csv", [*lines, ("none.png", "photo 0")]), folder, Images(size=4))
    learned, kept_out = hold_out_images(rows, 0.3, 7, Images(size=2))
    assert (len(learned), len(kept_out)) == (35, 15)
    assert (len(learned.files()), len(kept_out.files())) == (7, 3)
    assert not learned.files() & kept_out.files()
    assert all(len(own) == 5 for part in (learned, kept_out) for own in part.by_image().values())
    assert sorted(paired(learned) + paired(kept_out)) == sorted(paired(rows))
    assert all(part.kept.tolist() == sorted(part.kept) for part in (learned, kept_out))  # as the table has them
    assert (len(learned.faults), len(kept_out.faults)) == (1, 0)
    again, other = (hold_out_images(rows, 0.3, seed, IMAGES)[1].names for seed in (7, 8))
    assert again == kept_out.names
    assert other != again
    for share in (0.01, 0.04):  # one image at least
        assert len(hold_out_images(rows, share, 0, IMAGES)[1].files()) == 1
    one = read(table(tmp_path / "one.csv", [("1.png", "photo 1"), ("1.png", "again photo 1")]), folder)
    with pytest.raises(InputError, match="the held-out split must have images"):
        hold_out_images(one, 0.5, 0, IMAGES)


def test_what_was_learned_from_is_not_measured_on(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", 4)
    train = read(table(tmp_path / "train.csv", [("0.png", "photo 0"), ("1.png", "photo 1")]), folder)
    lines = [("2.png", "photo 2"), ("./1.png", "another photo 1"), ("3.png", "photo 3")]
    rows = read(table(tmp_path / "test.csv", lines), folder, learned=frozenset(train.files()))
    assert paired(rows) == ["photo 2", "photo 3"]
    (fault,) = rows.faults
    assert fault.line == 3
    assert fault.reason.startswith("1.png: the image is also in data.train")
    other = photos(tmp_path / "others", 4)  # of the same names, and not the same images
    assert len(read(tmp_path / "test.csv", other, learned=frozenset(train.files()))) == 3


def test_who_reads_captions_decodes_no_image(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", 2)
    rows = read(table(tmp_path / "captions.csv", [("0.png", "photo 0"), ("1.png", "photo 1")]), folder)
    os.remove(folder / "1.png")
    texts = KIND.texts(rows)
    assert [texts(i) for i in range(len(rows))] == [["photo 0"], ["photo 1"]]
    with pytest.raises(InputError, match="cannot be read"):
        rows[1]
