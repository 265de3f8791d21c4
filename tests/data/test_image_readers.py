"""Images in folders, tables, archives and sheets: every one is looked at, and none of them is believed."""

import os
import random
import time
import tracemalloc
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch
from PIL import Image

from regard.data.faults import DamagedError
from regard.data.locations import Archive, DataFolder
from regard.errors import InputError
from regard.modalities.images import checks, pixels
from regard.modalities.images.pixels import decoded
from regard.modalities.images.processor import Images, open_images
from regard.modalities.images.sheets import open_sheet
from tests.data.pictures import WHOLE, packed

AS_IS = Images(size=None)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return folder


def plain(colour: object, size: tuple[int, int] = (4, 3)) -> bytes:
    return packed(Image.new("RGB", size, colour))


def test_folders_are_labels(tmp_path: Path) -> None:
    files = {"b/2.png": plain("red"), "a/1.jpg": plain("lime"), "b/deep/1.gif": plain("blue"), "README.txt": b"words"}
    rows = open_images(put(tmp_path / "d", files | {".hidden/x.png": b"", "a/.DS_Store": b""}), AS_IS)
    assert (rows.labels, list(rows.faults), len(rows)) == (("a", "b"), [], 3)
    assert [(row.image[:, 0, 0].tolist(), row.label) for row in (rows[i] for i in range(3))] == [
        ([0, 255, 0], 0),
        ([255, 0, 0], 1),
        ([0, 0, 255], 1),
    ]
    assert rows[0].image.shape == (3, 3, 4)
    assert rows.lengths is not None
    assert rows.lengths.tolist() == [12, 12, 12]
    assert rows.where(2).endswith("d/b/deep/1.gif")
    assert open_images(tmp_path / "d", Images(size=8)).lengths is None
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            rows[wrong]


def test_what_cannot_be_used_is_listed_with_its_reason(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "d",
        {
            "a/good.png": plain("red"),
            "a/cut.jpg": WHOLE["jpg"][:-100],
            "a/empty.png": b"",
            "a/words.txt": b"words",
            "a/bad\nname.png": b"",
            "lost.png": plain("red"),
        },
    )
    (folder / "empty").mkdir()
    (folder / "a" / "nowhere.png").symlink_to("gone.png")
    (folder / "a" / "self.png").symlink_to("self.png")
    (folder / "a" / "above").symlink_to("..")
    os.mkfifo(folder / "a" / "pipe.png")
    rows = open_images(folder, AS_IS)
    assert [rows.names, rows.labels] == [("a/good.png",), ("a",)]
    found = {fault.file.removeprefix(f"{folder}/"): fault.reason for fault in rows.faults}
    assert "truncated" in found.pop("a/cut.jpg")
    assert "unsupported image format" in found.pop("a/words.txt")
    assert found == {
        "a/empty.png": "the file is empty (0 bytes)",
        "a/bad\\nname.png": "the file is empty (0 bytes)",
        "lost.png": "not inside a label folder",
        "empty": "the folder is empty",
        "a/nowhere.png": "cannot be read: No such file or directory",
        "a/self.png": "cannot be read: Too many levels of symbolic links",
        "a/above": "a symbolic link to a folder that was already read",
        "a/pipe.png": "is not a regular file",
    }
    assert len(rows.faults) == 10


@pytest.mark.parametrize("table", ["labels.tsv", "labels.csv"])
def test_a_table_gives_the_labels(tmp_path: Path, table: str) -> None:
    tab = "\t" if table == "labels.tsv" else ","
    lines = ["file|label", "x.png|cat", "sub/y.png|a dog", "", "z.png|cat", "gone.png|cat", "x.png|cat", "only"]
    lines += ["../x.png|cat", "/etc/passwd|cat", "y.png|", "|cat", "x.png|cat|more", "bad.png|cat"]
    text = "\ufeff" + "\r\n".join(lines).replace("|", tab)
    files = {"x.png": plain("red"), "sub/y.png": plain("lime"), "z.png": plain("blue"), "bad.png": b"GIF89a"}
    rows = open_images(put(tmp_path / "d", files | {table: text.encode(), "unused.png": b""}), AS_IS)
    assert rows.labels == ("a dog", "cat")
    assert [rows[i].label for i in range(len(rows))] == [1, 0, 1]
    assert rows[1].image[:, 0, 0].tolist() == [0, 255, 0]
    found = {fault.line: fault.reason for fault in rows.faults}
    assert all(fault.file == str(tmp_path / "d" / table) for fault in rows.faults)
    assert "bad.png: unsupported image format" in found.pop(14)
    assert found == {
        6: "gone.png: cannot be read: No such file or directory",
        7: "duplicate of line 2: x.png",
        8: "1 columns instead of 2",
        9: "../x.png: the path points outside the folder",
        10: "/etc/passwd: the path points outside the folder",
        11: "the label is empty",
        12: "the file name is empty",
        13: "3 columns instead of 2",
    }


def test_a_csv_may_have_quotes_and_one_that_never_ends_is_a_fault(tmp_path: Path) -> None:
    text = '"a,b.png","the ""best"""\n"c.png\n'
    rows = open_images(put(tmp_path / "d", {"a,b.png": plain("red"), "labels.csv": text.encode()}), AS_IS)
    assert rows.labels == ('the "best"',)
    assert [fault.line for fault in rows.faults] == [2]


def test_labels_of_the_training_data_keep_their_numbers(tmp_path: Path) -> None:
    folder = put(tmp_path / "d", {"b/1.png": plain("red")})
    assert open_images(folder, AS_IS)[0].label == 0
    rows = open_images(folder, AS_IS, labels=("a", "b", "c"))
    assert (rows[0].label, rows.labels) == (1, ("a", "b", "c"))
    with pytest.raises(InputError, match="some labels do not occur in the training data") as caught:
        open_images(folder, AS_IS, labels=("a", "c"))
    assert caught.value.got == "b"


def test_no_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no images found"):
        open_images(tmp_path / "empty", AS_IS)
    with pytest.raises(InputError, match="not inside a label folder"):
        open_images(put(tmp_path / "flat", {"a.png": plain("red")}), AS_IS)
    with pytest.raises(InputError, match="more than one label table"):
        open_images(put(tmp_path / "two", {"labels.tsv": b"", "labels.csv": b""}), AS_IS)
    with pytest.raises(InputError, match="cannot be read"):
        open_images(put(tmp_path / "no text", {"labels.tsv": b"a.png\t\x81\xff"}), AS_IS)
    for missing in (tmp_path / "gone", put(tmp_path / "file", {"a": b""}) / "a"):
        with pytest.raises(InputError, match=r"image folder or \.zip archive not found"):
            open_images(missing, AS_IS)


def test_one_image_for_inference(tmp_path: Path) -> None:
    folder = put(tmp_path, {"a.png": plain("red"), "b.png": b"what"})
    assert Images(size=2).read(folder / "a.png")[:, 1, 1].tolist() == [255, 0, 0]
    with pytest.raises(InputError, match="cannot be read") as caught:
        Images().read(folder / "b.png")
    assert caught.value.where == str(folder / "b.png")
    with pytest.raises(InputError, match="No such file"):
        Images().read(folder / "gone.png")


def test_an_image_that_is_lost_later_is_named(tmp_path: Path) -> None:
    rows = open_images(put(tmp_path / "d", {"a/1.png": plain("red")}), AS_IS)
    (tmp_path / "d/a/1.png").write_bytes(b"")
    with pytest.raises(InputError, match="0 bytes") as caught:
        rows[0]
    assert caught.value.where == str(tmp_path / "d/a/1.png")


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, raw: bytes) -> tuple[int, int]:
        self.calls += 1
        return decoded(raw).size


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter()
    monkeypatch.setattr(checks, "measured", counter)
    return counter


def test_a_second_start_decodes_only_what_has_changed(tmp_path: Path, cache: Path, counter: Counter) -> None:
    folder = put(tmp_path / "d", {f"a/{i}.png": plain("red") for i in range(5)} | {"a/bad.png": b"GIF"})
    first = open_images(folder, AS_IS)
    assert counter.calls == 6
    second = open_images(folder, AS_IS)
    assert counter.calls == 6
    assert (second.names, list(second.faults)) == (first.names, list(first.faults))
    assert second.lengths is not None
    assert second.lengths.tolist() == [12] * 5
    (folder / "a/bad.png").write_bytes(plain("red", (2, 2)))
    os.utime(folder / "a/0.png", ns=(1, 1))
    assert len(open_images(folder, AS_IS)) == 6
    assert counter.calls == 8
    assert [path.suffix for path in cache.iterdir()] == [".jsonl"]


def test_a_damaged_memory_is_as_none(tmp_path: Path, cache: Path, counter: Counter) -> None:
    folder = put(tmp_path / "d", {f"a/{i}.png": plain("red") for i in range(3)})
    open_images(folder, AS_IS)
    (memory,) = cache.iterdir()
    good = memory.read_text()
    torn = good.rstrip().rpartition("\n")[0] + '\n["a/2.png", 1'
    for text, again in ((torn, 1), ("", 3), ("junk\n", 3), (good + "[1]\n[" * 3000 + "\n\xff", 0), (good, 0)):
        memory.write_text(text)
        counter.calls = 0
        assert len(open_images(folder, AS_IS)) == 3
        assert counter.calls == again, text[:20]
        counter.calls = 0
        assert len(open_images(folder, AS_IS)) == 3
        assert counter.calls == 0


def test_another_decoder_looks_anew(tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "d", {"a/1.png": plain("red")})
    open_images(folder, AS_IS)
    assert checks.TERMS["pillow"] == PIL.__version__
    monkeypatch.setattr(checks, "TERMS", checks.TERMS | {"pillow": "0"})
    open_images(folder, AS_IS)
    assert counter.calls == 2


def test_without_a_cache_all_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(put(tmp_path, {"file": b""}) / "file"))
    assert len(open_images(put(tmp_path / "d", {"a/1.png": plain("red")}), AS_IS)) == 1


def test_no_more_pixels_than_there_is_room_for() -> None:
    """Of eight threads with images of half the room each, two decode at a time; what is larger waits for all of it."""
    room, now, most = checks.Room(100), [0], [0]

    def work(pixels: int) -> None:
        with room.taken(pixels):
            now[0] += min(pixels, 100)
            most[0] = max(most[0], now[0])
            time.sleep(0.002)
            now[0] -= min(pixels, 100)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [50, 50, 1000, 1, 100, 50, 99, 2] * 4))
    assert 50 <= most[0] <= 100
    assert room.free == 100


def test_what_passes_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "d", {"a/1.png": plain("red"), "a/2.png": plain("red")})

    def scarce(raw: bytes) -> Image.Image:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(pixels, "simple", scarce)
        assert [fault.reason for fault in open_images(folder, AS_IS).faults] == [
            "not enough memory to decode the image"
        ] * 2
    assert len(open_images(folder, AS_IS)) == 2


def archive(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, raw in files.items():
            file.writestr(name, raw)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_reads_as_its_folder_does(tmp_path: Path, method: int) -> None:
    files = {"b/1.png": plain("red"), "a/2.png": plain("blue"), "a/bad.png": b"", "__MACOSX/a/._2.png": b"x"}
    rows = open_images(archive(tmp_path / "d.zip", files, method), AS_IS)
    assert (rows.labels, rows.names) == (("a", "b"), ("a/2.png", "b/1.png"))
    assert torch.equal(rows[1].image, AS_IS.prepare(Image.new("RGB", (4, 3), "red")))
    assert [str(fault) for fault in rows.faults] == [f"{tmp_path}/d.zip/a/bad.png: the file is empty (0 bytes)"]


@pytest.mark.parametrize("name", ["../../a/2.png", "a/../../2.png", "/a/2.png"])
def test_a_name_that_leads_out_of_an_archive_is_a_bad_row(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "d.zip", {"a/1.png": plain("red"), "b/1.png": plain("blue"), name: plain("red")})
    rows = open_images(path, AS_IS)
    assert (rows.labels, rows.names) == (("a", "b"), ("a/1.png", "b/1.png"))
    assert [str(fault) for fault in rows.faults] == [f"{path}/{name}: the path points outside the archive"]


def test_hostile_archives(tmp_path: Path) -> None:
    good = archive(tmp_path / "d.zip", {"a/1.png": plain("red"), "../../a/2.png": plain("red")})
    assert Archive(good).read("a/1.png") == plain("red")
    whole = archive(tmp_path / "stored.zip", {"a": b"some bytes"}, zipfile.ZIP_STORED)
    place = Archive(whole)
    whole.write_bytes(whole.read_bytes().replace(b"some bytes", b"sore bytes"))
    with pytest.raises(DamagedError, match="checksum"):
        place.read("a")
    bomb = Archive(archive(tmp_path / "bomb.zip", {"a": bytes(1 << 24)}))
    entry = bomb.entries["a"]
    bomb.entries["a"] = entry._replace(size=10)
    tracemalloc.start()
    with pytest.raises(DamagedError, match="size or checksum"):
        bomb.read("a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    for change in ({"size": 1 << 40}, {"flags": 1}, {"method": 14}, {"start": -5}, {"start": 1 << 40}):
        bomb.entries["a"] = entry._replace(**change)
        with pytest.raises(DamagedError):
            bomb.read("a")
    for raw in (b"", b"PK", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + b"\xff" * 18):
        (tmp_path / "x.zip").write_bytes(raw)
        with pytest.raises(InputError):
            open_images(tmp_path / "x.zip", AS_IS)


def test_no_name_leads_out_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path, {"secret.png": plain("red"), "d/in.png": plain("red")})
    place = DataFolder(tmp_path / "d")
    assert place.read("in.png") == plain("red")
    assert place.read("./in.png") == plain("red")
    for name in (
        "../secret.png",
        "x/../../secret.png",
        str(tmp_path / "secret.png"),
        "",
        ".",
        "a\0b",
        "\ud800",
        "x" * 999,
    ):
        with pytest.raises(DamagedError):
            place.read(name)


def sheet(folder: Path, rows: int, columns: int, targets: object) -> Path:
    """Tiles of 3 x 2, each filled with its number."""
    tiles = np.arange(rows * columns).reshape(rows, 1, columns, 1)
    array = np.broadcast_to(tiles, (rows, 3, columns, 2)).reshape(rows * 3, columns * 2).astype(np.uint8)
    np.save(folder / "targets.npy", np.array(targets))
    return put(folder, {"sheet.png": packed(Image.fromarray(array))}) / "sheet.png"


def test_a_sheet_is_read_row_by_row(tmp_path: Path) -> None:
    path = sheet(tmp_path, 2, 4, [0, 1, 2, 0, 1, 2, 0])
    rows = open_sheet(path, (3, 2), tmp_path / "targets.npy", Images(size=None, channels=1))
    assert (len(rows), rows.labels, rows.lengths) == (7, ("0", "1", "2"), None)
    assert [rows[i].image.unique().tolist() for i in range(7)] == [[i] for i in range(7)]
    assert [rows[i].label for i in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert rows[0].image.shape == (1, 3, 2)
    rows = open_sheet(path, (3, 2), 3, Images(size=None, channels=1))
    assert [rows[i].label for i in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]
    rows = open_sheet(path, (3, 2), tmp_path / "targets.npy", Images(size=4), labels=("cat", "dog"))
    assert (len(rows), rows.labels, rows[2].label) == (5, ("cat", "dog"), 0)
    assert [(fault.line, fault.reason) for fault in rows.faults] == [
        (3, "label 2 is out of range for 2 labels"),
        (6, "label 2 is out of range for 2 labels"),
    ]
    assert rows.where(2) == f"{path}:4"


@pytest.mark.parametrize("targets", [[0] * 9, [0] * 4, [[0]], [0.5] * 8, [], None, ["a"] * 8])
def test_labels_that_are_none_of_a_sheet(tmp_path: Path, targets: object) -> None:
    path = sheet(tmp_path, 2, 4, targets)
    with pytest.raises(InputError):
        open_sheet(path, (3, 2), tmp_path / "targets.npy", AS_IS)


def test_hostile_sheets(tmp_path: Path) -> None:
    path = sheet(tmp_path, 2, 4, [0] * 8)
    for size in ((4, 2), (3, 3), (0, 2), (-3, 2), (30, 20)):
        with pytest.raises(InputError, match="not a multiple of the tile size"):
            open_sheet(path, size, 1, AS_IS)
    luck = random.Random(0)
    good = (tmp_path / "targets.npy").read_bytes()
    for _ in range(100):
        raw = bytearray(good)
        for _ in range(3):
            raw[luck.randrange(len(raw))] = luck.randrange(256)
        (tmp_path / "targets.npy").write_bytes(raw[: luck.randrange(1, 2 * len(raw))])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = open_sheet(path, (3, 2), tmp_path / "targets.npy", AS_IS, labels=("a",))
            assert len(rows) + len(rows.faults) in (5, 6, 7, 8)
        except InputError:
            pass
    with pytest.raises(InputError, match="sheet cannot be read"):
        open_sheet(put(tmp_path, {"bad.png": b""}) / "bad.png", (1, 1), 1, AS_IS)


def test_cifar(shared_data: Path) -> None:
    folder = shared_data / "cifar10_subset"
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    rows = open_sheet(folder / "test2k.webp", (32, 32), folder / "test2k_labels.npy", Images(size=32), names)
    assert (len(rows), len(rows.faults)) == (2000, 0)
    assert [rows.labels[rows[i].label] for i in range(4)] == ["cat", "ship", "ship", "airplane"]
    array = np.asarray(Image.open(folder / "test2k.webp").convert("RGB"))
    tile = 51  # the second of the second row
    assert np.array_equal(rows[tile].image.permute(1, 2, 0).numpy(), array[32:64, 32:64])


def test_faces(shared_data: Path) -> None:
    path = shared_data / "orl_faces" / "faces_grid_20cols_112x92.png"
    rows = open_sheet(path, (112, 92), 10, Images(size=64, fit="crop", channels=1))
    assert (len(rows), len(rows.labels), len(rows.faults)) == (400, 40, 0)
    assert (rows[9].label, rows[10].label, rows[399].label) == (0, 1, 39)
    assert rows[17].image.shape == (1, 64, 64)
    means = torch.stack([rows[i].image.float() for i in range(400)]).reshape(40, 10, -1)
    within = (means - means.mean(1, keepdim=True)).square().mean()
    assert within < 0.7 * (means - means.mean((0, 1))).square().mean()  # ten of a row are of one person


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_label_table_of_a_spreadsheet(tmp_path: Path, encoding: str, sign: str) -> None:
    """Its encoding and the sign between its columns are found, as those of other tables."""
    for i in range(4):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.png")
    rows = [f"{i}.png{sign}{('Käfer', 'Vogel')[i % 2]}" for i in range(4)]
    (tmp_path / "labels.csv").write_bytes("\r\n".join([f"file{sign}label", *rows]).encode(encoding))
    found = open_images(tmp_path, Images(size=8))
    assert (found.labels, found.targets.tolist()) == (("Käfer", "Vogel"), [0, 1, 0, 1])
