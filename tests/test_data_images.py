"""Images in folders, tables, archives and sheets: every one is looked at, and none of them is believed."""

import io
import json
import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
import torch
from PIL import ExifTags, Image

from regard.data import checks, pixels
from regard.data.images import Images, open_images
from regard.data.pixels import DamagedError, decoded, loaded, told
from regard.data.places import Archive, Folder
from regard.data.sheets import open_sheet
from regard.errors import ConfigError, InputError
from tests.guard import hide_broken_torchvision

AS_IS = Images(size=None)
NOISE = np.random.default_rng(0).integers(0, 256, (24, 40, 3)).astype(np.uint8)
PICTURE = Image.fromarray(NOISE)
GREY = PICTURE.convert("L")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def packed(image: Image.Image, kind: str = "PNG", exif: Image.Exif | None = None, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **(options | ({"exif": exif} if exif else {})))
    return file.getvalue()


def held(turn: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = turn
    return exif


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return folder


def plain(colour: object, size: tuple[int, int] = (4, 3)) -> bytes:
    return packed(Image.new("RGB", size, colour))


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def reason(raw: bytes) -> str:
    with pytest.raises(DamagedError) as caught:
        decoded(raw)
    return str(caught.value)


WHOLE = {
    "png": packed(PICTURE),
    "grey.png": packed(GREY),
    "jpg": packed(PICTURE, "JPEG"),
    "flat.jpg": packed(Image.new("RGB", (40, 24), "red"), "JPEG"),
    "progressive.jpg": packed(PICTURE, "JPEG", progressive=True),
    "webp": packed(PICTURE, "WEBP"),
    "lossless.webp": packed(PICTURE, "WEBP", lossless=True),
    "gif": packed(PICTURE.convert("P"), "GIF"),
    "bmp": packed(PICTURE, "BMP"),
    "tif": packed(PICTURE, "TIFF"),
    "zip.tif": packed(PICTURE, "TIFF", compression="tiff_adobe_deflate"),
    "ppm": packed(PICTURE, "PPM"),
}


# ------------------------------------------------------------------------------------------------- one hostile file


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_was_cut_off_is_refused_or_lost_nothing(name: str) -> None:
    raw = WHOLE[name]
    full = np.asarray(decoded(raw))
    lengths = {*range(0, len(raw), 37), *range(len(raw) - 30, len(raw))}
    refused = 0
    for length in lengths:
        try:
            assert np.array_equal(np.asarray(decoded(raw[:length])), full), length
        except DamagedError:
            refused += 1
    assert refused > len(lengths) - 6


def test_a_flipped_bit_of_a_png_is_found() -> None:
    raw = WHOLE["png"]
    for place in range(len(raw) // 2, len(raw) // 2 + 300, 3):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert "damaged" in reason(changed), place


def test_broken_files_give_a_reason_and_nothing_else() -> None:
    luck = random.Random(0)
    reasons = []
    for _ in range(600):
        raw = bytearray(luck.choice([raw for name, raw in WHOLE.items() if not name.endswith("tif")]))
        for _ in range(luck.choice([1, 3, 10])):
            raw[luck.randrange(len(raw))] = luck.randrange(256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert decoded(bytes(raw)).mode in ("L", "RGB")
            except DamagedError as found:
                reasons.append(str(found))
    assert len(reasons) > 200
    assert all(text.isprintable() and " at 0x" not in text for text in reasons)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "0 bytes"),
        (b"no image at all", "no image of a kind"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "no image of a kind"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "no image of a kind"),
        (png(8000, 8000, zlib.compress(b"")), "8000 x 8000 pixels, more than"),
        (png(65535, 65535, zlib.compress(b"")), "more than"),
        (png(10_000, 10_000, zlib.compress(b"")), "more than"),  # a mere warning of Pillow's own
        (png(7000, 7000, zlib.compress(bytes(99))), "damaged"),
        (
            b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\x02L\x01\0;",
            "more than",
        ),
        (b"P6 60000 60000 255\n", "more than"),
        (b"Pf 2 2 -1.0\n" + bytes(16), "32 bits"),
        (packed(Image.fromarray(np.full((2, 2), 70_000, np.int32)), "TIFF"), "32 bits"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_image_is_refused(raw: bytes, words: str) -> None:
    assert words in reason(raw)


def test_the_largest_number_of_pixels_can_be_set() -> None:
    assert decoded(WHOLE["png"], largest=24 * 40).size == (40, 24)
    with pytest.raises(DamagedError, match="40 x 24 pixels, more than 959"):
        decoded(WHOLE["png"], largest=24 * 40 - 1)


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
def test_the_camera_may_have_been_held_in_any_way(turn: int, kind: str) -> None:
    """Six blocks of grey, as an upright viewer sees them."""
    want = np.kron(np.array([[0, 50, 100], [150, 200, 250]]), np.ones((16, 16))).astype(np.uint8)
    turned = {
        1: want,
        2: want[:, ::-1],
        3: want[::-1, ::-1],
        4: want[::-1],
        5: want.T,
        6: want.T[::-1],
        7: want[::-1, ::-1].T,
        8: want.T[:, ::-1],
    }[turn]
    stored = Image.fromarray(np.ascontiguousarray(turned))
    found = np.asarray(decoded(packed(stored, kind, held(turn)))).astype(int)
    assert found.shape == want.shape
    assert np.abs(found - want).max() <= 6  # a JPEG rounds


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_notes_that_cannot_be_read_do_not_cost_the_image(kind: str) -> None:
    raw = packed(PICTURE, kind, held(6))
    assert decoded(raw).size == (24, 40)
    broken = raw.replace(b"MM\0*", b"MM\xff\xff").replace(b"II*\0", b"II\xff\xff")
    assert decoded(broken).size == (40, 24)


def test_a_report_tells_no_addresses() -> None:
    assert told(OSError("cannot read <_io.BytesIO object at 0x7f3c>")) == "OSError"
    assert told(OSError()) == "OSError"
    assert told(ValueError("broken\tchunk\nand more")) == "broken\\tchunk"


def test_every_mode_becomes_grey_or_colour() -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    wide = (ramp.astype(np.uint16) << 8) | 0x80
    for kind in ("PNG", "TIFF", "PPM"):
        found = decoded(packed(Image.fromarray(wide), kind))
        assert found.mode == "L"
        assert np.array_equal(np.asarray(found), ramp), kind  # cut off at 255 it would be white
    assert decoded(packed(Image.fromarray(ramp > 100), "PNG")).getextrema() == (0, 255)
    ink = decoded(packed(Image.new("CMYK", (2, 2), (0, 255, 255, 0)), "TIFF"))
    assert ink.getpixel((0, 0)) == (255, 0, 0)
    red, green, blue = decoded(packed(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG")).getpixel((0, 0))
    assert red > 240
    assert max(green, blue) < 15
    yellow = decoded(packed(Image.new("RGB", (2, 2), "yellow").convert("P"), "GIF"))
    assert yellow.mode == "RGB"
    assert yellow.getpixel((0, 0)) == (255, 255, 0)


def test_what_is_transparent_lies_on_white() -> None:
    assert decoded(packed(Image.new("RGBA", (2, 2), (255, 0, 0, 0)))).getpixel((0, 0)) == (255, 255, 255)
    assert decoded(packed(Image.new("RGBA", (2, 2), (255, 0, 0, 255)))).getpixel((0, 0)) == (255, 0, 0)
    half = decoded(packed(Image.new("RGBA", (2, 2), (0, 0, 0, 128)))).getpixel((0, 0))
    assert half == (127, 127, 127)
    grey = decoded(packed(Image.new("LA", (2, 2), (10, 0))))
    assert (grey.mode, grey.getpixel((0, 0))) == ("L", 255)
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 255, 0])
    palette.putpixel((1, 0), 1)
    found = decoded(packed(palette, "PNG", transparency=0))
    assert [found.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (0, 255, 0)]
    found = decoded(packed(Image.new("RGB", (2, 2), "blue"), "PNG", transparency=(0, 0, 255)))
    assert found.getpixel((0, 0)) == (255, 255, 255)


def test_of_an_animation_the_first_frame_is_read() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    for kind in ("GIF", "WEBP", "PNG"):
        raw = packed(
            frames[0], kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
        )
        assert decoded(raw).getpixel((0, 0)) == (255, 0, 0), kind


# --------------------------------------------------------------------------------------------------- the processor


def test_stretch_gives_the_whole_image() -> None:
    tensor = Images(size=16).prepare(PICTURE)
    assert (tensor.dtype, tuple(tensor.shape)) == (torch.uint8, (3, 16, 16))
    want = np.asarray(PICTURE.resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(tensor.numpy(), want)
    assert Images(size=16, filter="bicubic").prepare(PICTURE).ne(tensor).any()
    grey = Images(size=16, channels=1).prepare(PICTURE)
    assert grey.shape == (1, 16, 16)
    assert np.array_equal(Images(size=None).prepare(PICTURE).numpy(), NOISE.transpose(2, 0, 1))


@pytest.mark.parametrize("size", [(40, 24), (24, 40), (33, 33), (301, 7)])
@pytest.mark.parametrize(("shorter", "cut"), [(None, 16), (20, 16), (57, 48)])
def test_a_crop_is_the_middle_of_the_scaled_image(size: tuple[int, int], shorter: int | None, cut: int) -> None:
    image = PICTURE.resize(size)
    side, (width, height) = shorter or cut, size
    scaled = image.resize((side * width // min(size), side * height // min(size)), Image.Resampling.BICUBIC)
    left, top = round((scaled.width - cut) / 2), round((scaled.height - cut) / 2)
    want = np.asarray(scaled.crop((left, top, left + cut, top + cut))).astype(int)
    found = Images(size=cut, fit="crop", shorter=shorter, filter="bicubic").prepare(image)
    assert np.abs(found.permute(1, 2, 0).numpy().astype(int) - want).max() <= 1


@pytest.mark.parametrize("fit", ["stretch", "crop", "within"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_large_image_becomes_small_channel_by_channel(
    fit: Any, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In strips, of every mode and every way to hold a camera, it is the image that it would be as a whole."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 4), np.uint8)
    ink = Image.fromarray(noise)
    made = {
        "rgba": packed(ink, "PNG"),
        "la": packed(ink.convert("LA"), "PNG"),
        "palette": packed(ink.convert("RGB").quantize(200), "PNG", transparency=3),
        "cmyk": packed(Image.frombytes("CMYK", (60, 40), noise.tobytes()), "TIFF"),
        "deep": packed(Image.fromarray(noise[..., 0].astype(np.uint16) * 251), "PNG"),
        "turned": packed(ink.convert("RGB"), "JPEG", held(6)),
        "mirrored": packed(ink.convert("RGB"), "PNG", held(2)),
        "plain": packed(ink.convert("RGB"), "PNG"),
    }
    images = Images(size=16, fit=fit, channels=channels, shorter=18 if fit == "crop" else None)
    for name, raw in made.items():
        whole = images.shrink(loaded(raw))
        assert torch.equal(whole, images.prepare(decoded(raw)))
        with monkeypatch.context() as patch:
            patch.setattr("regard.data.images.LARGE", 0)
            patch.setattr(pixels, "STRIP", 60 * 7)
            assert torch.equal(images.shrink(loaded(raw)), whole), name


PEAK = """
import os, resource, sys
from pathlib import Path
from regard.data.images import Images
images = Images(size=32)
if child := os.fork():  # a new process: what imports took at most does not count
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
images.read(Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_large_image_is_not_copied_as_a_whole(tmp_path: Path) -> None:
    """Transparent, of 20 million pixels: 80 MB, a channel of 20, and some strips. A copy alone would be 80 more."""
    ramp = Image.linear_gradient("L").resize((5000, 4000))
    Image.merge("RGBA", [ramp] * 4).save(tmp_path / "large.png", compress_level=1)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "large.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 140_000  # kilobytes


def test_a_line_of_pixels_makes_no_huge_image() -> None:
    """Scaled as a whole, its longer side would have 112 million pixels."""
    assert Images(size=224, fit="crop").prepare(Image.new("L", (500_000, 1))).shape == (3, 224, 224)


def test_a_shorter_side_unless_the_longer_would_be_too_long() -> None:
    """DETR's rule, of which the sizes are those that its code gives (transformers.image_transforms)."""
    images = Images(size=1333, fit="within", shorter=800)
    sizes = {
        (640, 480): (1066, 800),
        (480, 640): (800, 1066),
        (800, 800): (800, 800),
        (427, 640): (800, 1199),
        (3000, 500): (1333, 222),
        (1000, 800): (1000, 800),
        (5000, 1): (1333, 1),
    }
    for (width, height), wanted in sizes.items():
        assert images.within(width, height) == wanted, (width, height)
    assert images.prepare(Image.new("RGB", (64, 48))).shape == (3, 800, 1066)


def test_the_same_sizes_as_theirs() -> None:
    hide_broken_torchvision()
    pytest.importorskip("transformers")
    from transformers.image_transforms import get_size_with_aspect_ratio

    draw, images = np.random.default_rng(0), Images(size=1333, fit="within", shorter=800)
    for width, height in draw.integers(1, 3000, (3000, 2)).tolist():
        rows, columns = get_size_with_aspect_ratio((height, width), 800, 1333)
        assert images.within(width, height) == (max(columns, 1), max(rows, 1))


def test_pixels_that_fit_are_copied_and_all_others_take_the_same_way() -> None:
    for images in (
        Images(size=24),
        Images(size=24, channels=1),
        Images(size=24, fit="crop"),
        Images(size=24, fit="crop", shorter=30),
        Images(size=12),
        Images(size=None),
    ):
        for array in (NOISE[:, :24], NOISE[:, :24, 0]):
            found = images.prepare_pixels(np.array(array))
            assert torch.equal(found, images.prepare(Image.fromarray(np.array(array)))), images
    source = np.array(NOISE[:, :24])
    Images(size=24).prepare_pixels(source).zero_()
    assert np.array_equal(source, NOISE[:, :24])


def test_normalise() -> None:
    images = Images(mean=(0.5, 0.0, 1.0), std=(0.5, 1.0, 2.0))
    batch = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1).expand(2, 3, 2, 2)
    found = images.normalise(batch)
    assert found.dtype == torch.float32
    assert found[:, :, 1, 0].tolist() == [[-1.0, 0.0, -0.5], [1.0, 1.0, 0.0]]
    assert Images().normalise(batch)[:, 2, 0, 0].tolist() == [-1.0, 1.0]


def test_the_settings_survive_json() -> None:
    images = Images(size=28, fit="crop", shorter=32, filter="bicubic", channels=1, mean=(0.13,), std=(0.3,))
    data = json.loads(json.dumps(images.to_data()))
    assert data["kind"] == "images"
    assert Images.from_data(data, "regard.json") == images
    assert Images.from_data(Images(size=None).to_data(), "") == Images(size=None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "text"}, "no processor of images"),
        ({"sise": 3}, "did you mean 'size'"),
        ({"size": 0}, "size = 0"),
        ({"size": 1 << 20}, "more than"),
        ({"size": "big"}, "size = 'big'"),
        ({"channels": 2}, "not 1 or 3"),
        ({"fit": "crap"}, "fit = 'crap'"),
        ({"filter": "none"}, "filter"),
        ({"size": None, "shorter": 256}, "needs a size"),
        ({"fit": "crop", "shorter": 200}, "not larger"),
        ({"fit": "within", "shorter": 225}, "not smaller"),
        ({"fit": "within", "size": None, "shorter": 225}, "not smaller"),
        ({"shorter": 200}, "not larger"),
        ({"mean": [0.1, 0.2]}, "mean has 2 values"),
        ({"std": [0.0]}, "not above 0"),
        ({"std": [float("nan")]}, "std"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Images.from_data(Images().to_data() | change, "model/regard.json")
    assert "model/regard.json" in str(caught.value)


# ----------------------------------------------------------------------------------------------------- the readers


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
    assert "no image of a kind" in found.pop("a/words.txt")
    assert found == {
        "a/empty.png": "the file has 0 bytes",
        "a/bad\\nname.png": "the file has 0 bytes",
        "lost.png": "lies in no label's folder",
        "empty": "the folder is empty",
        "a/nowhere.png": "cannot be read: No such file or directory",
        "a/self.png": "cannot be read: Too many levels of symbolic links",
        "a/above": "a link to a folder that was already read",
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
    assert "bad.png: no image" in found.pop(14)
    assert found == {
        6: "gone.png: cannot be read: No such file or directory",
        7: "x.png stands already in line 2",
        8: "1 columns instead of 2",
        9: "../x.png: the path leads out of the folder",
        10: "/etc/passwd: the path leads out of the folder",
        11: "the label is empty",
        12: "the file's name is empty",
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
    with pytest.raises(InputError, match="labels here that are not in the training data") as caught:
        open_images(folder, AS_IS, labels=("a", "c"))
    assert caught.value.got == "b"


def test_no_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no images here"):
        open_images(tmp_path / "empty", AS_IS)
    with pytest.raises(InputError, match="lies in no label's folder"):
        open_images(put(tmp_path / "flat", {"a.png": plain("red")}), AS_IS)
    with pytest.raises(InputError, match="two tables"):
        open_images(put(tmp_path / "two", {"labels.tsv": b"", "labels.csv": b""}), AS_IS)
    with pytest.raises(InputError, match="cannot be read"):
        open_images(put(tmp_path / "latin", {"labels.tsv": b"a.png\t\xe4"}), AS_IS)
    for missing in (tmp_path / "gone", put(tmp_path / "file", {"a": b""}) / "a"):
        with pytest.raises(InputError, match="no folder of images"):
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


# ------------------------------------------------------------------------------------------------------- the memory


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
            "there was not enough memory to decode the image"
        ] * 2
    assert len(open_images(folder, AS_IS)) == 2


# ----------------------------------------------------------------------------------------------------- zip archives


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
    assert [str(fault) for fault in rows.faults] == [f"{tmp_path}/d.zip/a/bad.png: the file has 0 bytes"]


@pytest.mark.parametrize("name", ["../../a/2.png", "a/../../2.png", "/a/2.png"])
def test_a_name_that_leads_out_of_an_archive_is_a_bad_row(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "d.zip", {"a/1.png": plain("red"), "b/1.png": plain("blue"), name: plain("red")})
    rows = open_images(path, AS_IS)
    assert (rows.labels, rows.names) == (("a", "b"), ("a/1.png", "b/1.png"))
    assert [str(fault) for fault in rows.faults] == [f"{path}/{name}: the path leads out of the archive"]


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
    place = Folder(tmp_path / "d")
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


# ----------------------------------------------------------------------------------------------------------- sheets


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
        (3, "label 2, but there are only 2"),
        (6, "label 2, but there are only 2"),
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
        with pytest.raises(InputError, match="cannot be cut"):
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


# -------------------------------------------------------------------------------------------------------- real data


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
