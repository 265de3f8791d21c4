"""Images one by one: hostile files, and the processor."""

import json
import random
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image

from regard.data.faults import DamagedError
from regard.errors import ConfigError
from regard.modalities.images import pixels
from regard.modalities.images.pixels import decode_error, decoded, load_image
from regard.modalities.images.processor import Images
from tests.data.pictures import NOISE, PICTURE, WHOLE, packed, peak
from tests.forked import called
from tests.guard import hide_broken_torchvision


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def held(turn: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = turn
    return exif


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def reason(raw: bytes) -> str:
    with pytest.raises(DamagedError) as caught:
        decoded(raw)
    return str(caught.value)


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
        assert "corrupt" in reason(changed), place


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
        (b"no image at all", "unsupported image format"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "unsupported image format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "unsupported image format"),
        (png(8000, 8000, zlib.compress(b"")), "8000 x 8000 pixels, more than"),
        (png(65535, 65535, zlib.compress(b"")), "more than"),
        (png(10_000, 10_000, zlib.compress(b"")), "more than"),  # a mere warning of Pillow's own
        (png(7000, 7000, zlib.compress(bytes(99))), "corrupt"),
        (
            b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\x02L\x01\0;",
            "more than",
        ),
        (b"P6 60000 60000 255\n", "more than"),
        (b"Pf 2 2 -1.0\n" + bytes(16), "32-bit pixels"),
        (packed(Image.fromarray(np.full((2, 2), 70_000, np.int32)), "TIFF"), "32-bit pixels"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_image_is_refused(raw: bytes, words: str) -> None:
    assert words in reason(raw)


def test_the_largest_number_of_pixels_can_be_set() -> None:
    assert decoded(WHOLE["png"], largest=24 * 40).size == (40, 24)
    with pytest.raises(DamagedError, match="40 x 24 pixels, more than the limit of 959"):
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
    assert decode_error(OSError("cannot read <_io.BytesIO object at 0x7f3c>")) == "OSError"
    assert decode_error(OSError()) == "OSError"
    assert decode_error(ValueError("broken\tchunk\nand more")) == "broken\\tchunk"


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
        whole = images.shrink(load_image(raw))
        assert torch.equal(whole, images.prepare(decoded(raw)))
        with monkeypatch.context() as patch:
            patch.setattr("regard.modalities.images.processor.LARGE", 0)
            patch.setattr(pixels, "STRIP", 60 * 7)
            assert torch.equal(images.shrink(load_image(raw)), whole), name


def test_a_large_image_is_not_copied_as_a_whole(tmp_path: Path) -> None:
    """Transparent, of 10 million pixels: 40 MB, a channel of 10, and some strips. A copy alone would be 40 more."""
    ramp = Image.linear_gradient("L").resize((4000, 2500))
    Image.merge("RGBA", [ramp] * 4).save(tmp_path / "large.png", compress_level=1)
    assert int(called(peak, str(tmp_path / "large.png"))) < 75_000


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
        ({"kind": "text"}, "not an image processor"),
        ({"sise": 3}, "did you mean 'size'"),
        ({"size": 0}, "size = 0"),
        ({"size": 1 << 20}, "more than"),
        ({"size": "big"}, "size = 'big'"),
        ({"channels": 2}, "not 1 or 3"),
        ({"fit": "crap"}, "fit = 'crap'"),
        ({"filter": "none"}, "filter"),
        ({"size": None, "shorter": 256}, "needs a size"),
        ({"fit": "crop", "shorter": 200}, "needs a size of at most that"),
        ({"fit": "within", "shorter": 225}, "needs a size of at least that"),
        ({"fit": "within", "size": None, "shorter": 225}, "needs a size of at least that"),
        ({"shorter": 200}, "needs a size of at most that"),
        ({"mean": [0.1, 0.2]}, "mean has 2 values"),
        ({"std": [0.0]}, "not above 0"),
        ({"std": [float("nan")]}, "std"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Images.from_data(Images().to_data() | change, "model/regard.json")
    assert "model/regard.json" in str(caught.value)
