"""Models of images in use: what prepares an image goes with the model, and no file can do harm."""

import io
import json
import resource
import struct
import warnings
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.errors import CheckpointError, ConfigError, InputError
from regard.folders import convert, export
from regard.interop import image_preparation
from regard.modalities.images.classifier import ImageClassification
from regard.modalities.images.processor import Images
from regard.model import Model
from regard.nn.axis import Axis
from tests.guard import hide_broken_torchvision

IMAGES = Images(size=16, fit="crop", shorter=20, filter="bicubic", mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))
LABELS = ("cat", "dog", "owl")
NOISE = np.random.default_rng(0).integers(0, 256, (24, 30, 3), np.uint8)


def model(family: str = "vit", images: Images = IMAGES) -> Model:
    sizes: dict[str, dict[str, Any]] = {
        "vit": {"image": 16, "patch": 4, "dim": 16, "depth": 2, "heads": 2, "hidden": 32},
        "deit": {"image": 16, "patch": 4, "dim": 16, "depth": 2, "heads": 2, "hidden": 32},
        "swin": {"image": 16, "patch": 2, "dim": 8, "depth": (2, 2), "heads": (2, 4), "window": 4},
        "mixer": {"image": 16, "patch": 4, "dim": 16, "depth": 2},
        "resnet": {"depths": (1, 1), "dims": (8, 16), "width": 8, "stem": "small"},
    }
    names = {"vit": "vit-tiny", "deit": "deit-tiny", "swin": "swin-tiny", "mixer": "mixer-s16", "resnet": "resnet-50"}
    torch.manual_seed(0)
    made = regard.build(names[family], classes=3, channels=images.channels, **sizes[family]).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # a new head says the same of all images
    return replace(made, processor=images, task="classify", labels=LABELS)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(NOISE).save(tmp_path / "noise.png")
    return tmp_path / "noise.png"


# ---------------------------------------------------------------------------------------------------------- the folder


def test_it_is_saved_and_loaded(tmp_path: Path, picture: Path) -> None:
    made = model()
    regard.save(made, tmp_path / "model")
    told = json.loads((tmp_path / "model" / "regard.json").read_text())["processor"]
    assert told == IMAGES.to_data()
    back = regard.load(tmp_path / "model")
    assert back.processor == IMAGES
    assert back.classify(picture) == made.classify(picture)
    regard.save(replace(made, processor=None), tmp_path / "old")  # a folder of an earlier version
    assert regard.load(tmp_path / "old").processor is None


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"size": "big"}, ConfigError, "size = 'big'"),
        ({"sise": 16}, ConfigError, "did you mean 'size'"),
        ({"kind": "sounds"}, CheckpointError, "unknown processor"),
        ({"channels": 1, "mean": [0.5], "std": [0.5]}, CheckpointError, "1 channels in the processor, 3 in the model"),
    ],
)
def test_it_is_read_strictly(tmp_path: Path, change: dict[str, Any], kind: type[Exception], words: str) -> None:
    regard.save(model(), tmp_path / "model")
    path = tmp_path / "model" / "regard.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"processor": data["processor"] | change}))
    with pytest.raises(kind, match=words):
        regard.load(tmp_path / "model")


def test_a_model_of_texts_has_no_images(tmp_path: Path) -> None:
    made = regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=1, heads=2)
    regard.save(made, tmp_path / "model")
    path = tmp_path / "model" / "regard.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"processor": IMAGES.to_data()}))
    with pytest.raises(CheckpointError, match="none in the model"):
        regard.load(tmp_path / "model")


# ------------------------------------------------------------------------------------------------------------- in use


@pytest.mark.parametrize("family", ["vit", "deit", "swin", "mixer", "resnet"])
def test_labels_are_the_net_s(family: str, picture: Path) -> None:
    """By hand: prepared, normalised, softmax. One image or many, files or images in memory, all the same."""
    made = model(family)
    pixels = IMAGES.normalise(IMAGES.prepare(Image.fromarray(NOISE)))[None]
    with torch.inference_mode():
        chances = made(pixels).softmax(-1)[0]
    one = made.classify(picture)
    assert isinstance(one, ImageClassification)
    assert one.image == str(picture)
    assert one.label == LABELS[int(chances.argmax())]
    assert [chance for _, chance in one.ranked] == pytest.approx(sorted(chances.tolist(), reverse=True))
    assert dict(one.ranked)[one.label] == one.probability
    several = made.classify([str(picture), Image.fromarray(NOISE)])
    assert [x.ranked[0][0] for x in several] == [one.label, one.label]
    assert several[1].image == ""  # type: ignore[union-attr]
    assert made.classify([]) == []
    assert {name for name, _ in replace(made, labels=()).classify(picture).ranked} == {"0", "1", "2"}


def test_each_image_is_judged_alone_in_any_company(picture: Path, tmp_path: Path) -> None:
    """More than are seen at once, of several sizes and modes."""
    made, files = model(), []
    for i in range(40):
        image = Image.fromarray(np.roll(NOISE, i, 1)).resize((20 + i, 50 - i)).convert("L" if i % 2 else "RGB")
        image.save(tmp_path / f"{i}.png")
        files.append(tmp_path / f"{i}.png")
    together = made.classify(files)
    assert [x.label for x in together] == [made.classify(file).label for file in files]
    assert [x.probability for x in together] == pytest.approx([made.classify(file).probability for file in files])


@pytest.mark.parametrize(("family", "grid"), [("vit", (4, 4)), ("deit", (4, 4)), ("mixer", (4, 4))])
def test_maps_have_the_grid_on_their_axes(family: str, grid: tuple[int, int], picture: Path) -> None:
    made = model(family)
    looked = made.look(picture)
    assert {axis.grid for x in looked.maps.values() for axis in (x.rows, x.columns)} == {grid}
    first = next(iter(looked.maps.values()))
    special = {"vit": 1, "deit": 2, "mixer": 0}[family]
    assert (first.rows.special, first.rows.size) == (special, special + 16)
    assert first.weights.shape[-2:] == (special + 16, special + 16)
    with torch.inference_mode():
        plain = made(IMAGES.normalise(IMAGES.read(picture))[None])
    torch.testing.assert_close(looked.output, plain, rtol=1e-4, atol=1e-5)
    assert list(made.look(Image.fromarray(NOISE), pattern="blocks.1.*").maps) == [
        name for name in looked.maps if name.startswith("blocks.1.")
    ]


def test_windows_know_where_they_are(picture: Path) -> None:
    looked = model("swin").look(picture)
    assert looked.maps
    for one in looked.maps.values():
        assert isinstance(one.rows, Axis)
        assert one.rows.cut is not None
        assert one.weights.shape[0] == one.rows.cut.count


def test_what_is_no_image_of_a_model_is_refused(picture: Path) -> None:
    made = model()
    for call in (
        lambda: made.look(picture, picture),
        lambda: made.look(),
        lambda: made.classify(""),
        lambda: made.classify("a\0b"),
        lambda: made.classify(picture.parent),
        lambda: made.classify(picture.parent / "none.png"),
        lambda: made.classify(NOISE / 255),
        lambda: made.classify([NOISE / 255]),
        lambda: made.classify(torch.zeros(3, 8, 8)),  # type: ignore[call-overload]
        lambda: made.classify(5),  # type: ignore[call-overload]
        lambda: replace(made, processor=None).classify(picture),
        lambda: made.text(),
        lambda: made.embed("a text"),
        lambda: made.translate("a text"),
        lambda: regard.load("recall").look(picture),
        lambda: regard.build("bert-tiny", head="label", classes=2).classify(picture),
        lambda: replace(regard.build("vit-cifar", classes=0), processor=Images(size=32)).classify(picture),
    ):
        with pytest.raises(InputError):
            call()


# ---------------------------------------------------------------------------------------------------- hostile images


def png(width: int, height: int, body: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def packed(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def animated() -> bytes:
    """10,000 frames; only the first counts."""
    frames = [Image.new("P", (8, 8), i % 2) for i in range(10_000)]
    for i, frame in enumerate(frames):
        frame.putpalette([255, 0, 0, 0, 255, i % 256])
    return packed(frames[0], "GIF", save_all=True, append_images=frames[1:], optimize=False)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
READ = {  # what is unusual, and still an image
    "one.png": lambda: packed(Image.new("RGB", (1, 1), "red"), "PNG"),
    "cmyk.jpg": lambda: packed(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG"),
    "deep.png": lambda: packed(Image.fromarray(np.full((9, 9), 40_000, np.uint16)), "PNG"),
    "many.gif": animated,
    "wide.png": lambda: packed(Image.new("L", (65_535, 2), 9), "PNG"),
    "named-wrong.txt": lambda: packed(Image.fromarray(NOISE), "WEBP"),
}
REFUSED = {
    "empty.png": (b"", "0 bytes"),
    "drawn.svg": (SVG, "unsupported image format"),
    "words.png": (b"hello", "unsupported image format"),
    "bomb.png": (png(60_000, 60_000, zlib.compress(bytes(60_001))), "more than 50000000 pixels"),
    "short.png": (png(100, 100, zlib.compress(bytes(50))), "corrupt"),
    "cut.jpg": (packed(Image.fromarray(NOISE), "JPEG")[:-200], "corrupt"),
}


@pytest.mark.parametrize("name", READ)
def test_unusual_images_are_seen(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(READ[name]())
    regard.save(model(), tmp_path / "model")
    assert main(["classify", str(tmp_path / "model"), str(tmp_path / name), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["label"] in LABELS
    pixels = IMAGES.read(tmp_path / name)
    assert pixels.shape == (3, 16, 16)
    if name == "deep.png":
        assert set(pixels.flatten().tolist()) == {40_000 >> 8}
    if name == "many.gif":
        assert pixels[0].float().mean() > 200  # the first frame is red


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_image_ends_with_a_word(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, words = REFUSED[name]
    (tmp_path / name).write_bytes(raw)
    regard.save(model(), tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a bomb is an error of ours, and no warning of the decoder's
        assert main(["classify", str(tmp_path / "model"), str(tmp_path / name)]) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    said = capsys.readouterr().err
    assert words in said
    assert name in said
    assert "Traceback" not in said


def test_images_in_memory_are_as_hostile(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(REFUSED["bomb.png"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (tmp_path / "large.png").write_bytes(png(9_000, 9_000, zlib.compress(bytes(10))))
        with Image.open(tmp_path / "large.png") as lazy, pytest.raises(InputError, match="more than"):
            model().classify(lazy)
    with pytest.raises(InputError, match="32-bit pixels"):
        model().classify(Image.new("F", (8, 8)))
    (tmp_path / "cut.png").write_bytes(packed(Image.fromarray(NOISE), "PNG")[:-100])
    with Image.open(tmp_path / "cut.png") as lazy, pytest.raises(InputError, match="corrupt"):
        model().classify(lazy)
    assert model().classify(Image.new("RGBA", (8, 8))).label in LABELS


def test_the_verb(tmp_path: Path, picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model()
    regard.save(made, tmp_path / "model")
    name, file, wanted = str(tmp_path / "model"), str(picture), made.classify(picture)
    assert main(["classify", name, file, "--top", "5"]) == 0
    assert capsys.readouterr().out == "  ".join(f"{label} {chance:.1%}" for label, chance in wanted.ranked) + "\n"
    assert main(["classify", name, file, file]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{file}  {wanted.label} {wanted.probability:.1%}"] * 2
    assert main(["classify", name, file, file, "--json", "--top", "2"]) == 0
    (one, two) = map(json.loads, capsys.readouterr().out.splitlines())
    assert one == two
    assert (one["image"], one["label"], len(one["ranked"])) == (file, wanted.label, 2)
    assert one["ranked"][0]["probability"] == pytest.approx(wanted.probability, rel=1e-4)
    (tmp_path / "bad.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    bad = str(tmp_path / "bad.png")
    assert main(["classify", name, file, file, bad, file]) == 2  # what stands before it is told
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"{file}  {wanted.label} {wanted.probability:.1%}"] * 2
    assert bad in err
    for arguments, words in (
        (["-"], "standard input"),
        ([], "no file"),
        ([file, "-"], "standard input"),
        ([file, "--beside", "a"], "--beside requires a text model"),
        ([file, "--top", "0"], "--top must be at least 1"),
        ([str(tmp_path / "none.png")], "none.png"),
        ([str(tmp_path / "empty")], "the folder has no images"),
    ):
        assert main(["classify", name, *arguments]) == 2
        assert words in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ as others say

SAID = {
    "vit": ({"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}}, ("stretch", 16, None)),
    "old vit": ({"feature_extractor_type": "ViTFeatureExtractor", "size": 16}, ("stretch", 16, None)),
    "deit": ({"feature_extractor_type": "DeiTFeatureExtractor", "size": 20, "crop_size": 16}, ("stretch", 16, 20)),
    "convnext": ({"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 16}}, ("crop", 16, 18)),
    "levit": (
        {"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 16}, "crop_size": 16},
        ("crop", 16, 18),
    ),
    "detr": (
        {
            "image_processor_type": "DetrImageProcessor",
            "size": {"shortest_edge": 16, "longest_edge": 22},
            "format": "coco_detection",
            "do_pad": True,
            "do_convert_annotations": True,
        },
        ("within", 22, 16),
    ),
    "old detr": (
        {"feature_extractor_type": "DetrFeatureExtractor", "size": 16, "max_size": 22, "format": "coco_detection"},
        ("within", 22, 16),
    ),
    "perceiver": ({"image_processor_type": "PerceiverImageProcessor", "size": 16, "crop_size": 20}, ("crop", 16, 20)),
    "clip": (
        {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 20}, "crop_size": 16},
        ("crop", 16, 20),
    ),
}
NUMBERS = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "resample": 3}


@pytest.mark.parametrize("name", SAID)
def test_what_transformers_says(name: str) -> None:
    """And theirs, where it can be asked, makes the same of an image."""
    said, (fit, size, shorter) = SAID[name]
    told = image_preparation.from_transformers(said | NUMBERS, 3)
    assert told is not None
    ours = Images.from_data(told, "")
    margin = "round" if fit == "within" else "floor"  # of which nothing is cut off
    assert ours == replace(IMAGES, fit=fit, size=size, shorter=shorter, margin=margin)  # type: ignore[arg-type]
    back = image_preparation.to_transformers(ours.to_data())
    assert back is not None
    again = image_preparation.from_transformers(back, 3)
    assert again == told
    hide_broken_torchvision()
    transformers = pytest.importorskip("transformers")
    for data in (back, said | NUMBERS):
        kind = data.get("image_processor_type", str(data.get("feature_extractor_type")))
        processor = getattr(transformers, str(kind).replace("FeatureExtractor", "ImageProcessor") + "Pil", None)
        if processor is None:
            continue
        image = Image.fromarray(NOISE).resize((60, 60), Image.Resampling.BICUBIC)
        theirs = processor(**{key: x for key, x in data.items() if not key.endswith("_type")})(
            image, return_tensors="pt"
        )["pixel_values"]
        found = ours.normalise(ours.prepare(image))[None]
        apart = (theirs - found).abs()[..., 2:-2, 2:-2] if "Perceiver" in str(kind) else (theirs - found).abs()
        assert float(apart.max()) < 2.01 / 255 / 0.2  # they round between scaling and cutting


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"do_resize": False}, "do_resize = False"),
        ({"do_normalize": False}, "do_normalize = False"),
        ({"rescale_factor": 1 / 127.5}, "rescale_factor = 0.00784"),
        ({"do_pad": True}, "do_pad = True"),
        ({"resample": 5}, "resample = 5; supported are 0 (nearest)"),
        ({"size": {"height": 16, "width": 20}}, "size = {'height': 16, 'width': 20}"),
        ({"image_mean": 0.5}, "image_mean = 0.5"),
        ({"image_processor_type": "DetrImageProcessor"}, "not a supported form of size for Detr"),
        (
            {"image_processor_type": "OwlImageProcessor"},
            "image_processor_type = 'OwlImageProcessor'; supported are ViT",
        ),
        ({"do_center_crop": True}, "do_center_crop = True"),
        ({"offset": True}, "offset = True"),
    ],
)
def test_what_cannot_be_said_in_our_words_is_not_said(
    change: dict[str, Any], reason: str, tmp_path: Path, picture: Path
) -> None:
    said = SAID["vit"][0] | NUMBERS
    assert image_preparation.from_transformers(said, 3) is not None
    assert image_preparation.from_transformers(said | change, 3) is None
    export(model(), tmp_path / "out")
    (tmp_path / "out" / image_preparation.PREPROCESSOR_FILE).write_text(json.dumps(said | change))
    loaded = regard.load(tmp_path / "out")  # its weights are whole
    assert loaded.processor is None
    with pytest.raises(InputError, match="this model has no image processor") as caught:
        loaded.classify(picture)
    assert caught.value.where == str(tmp_path / "out" / image_preparation.PREPROCESSOR_FILE)
    assert reason in caught.value.got


def test_the_line_that_would_do_does(tmp_path: Path, picture: Path) -> None:
    export(model(), tmp_path / "out")
    path = tmp_path / "out" / image_preparation.PREPROCESSOR_FILE
    path.unlink()
    with pytest.raises(InputError, match="this model has no image processor") as caught:
        regard.load(tmp_path / "out").classify(picture)
    assert (caught.value.where, caught.value.got) == (str(path), "file not found")
    path.write_text(caught.value.fix.split("\n")[-1])
    assert regard.load(tmp_path / "out").classify(picture)
    for size, detects in ((32, False), (None, False), (None, True)):
        assert (
            image_preparation.from_transformers(json.loads(image_preparation.sample(size, 1, detects=detects)), 1)
            is not None
        )


@pytest.mark.parametrize("to", ["hf", "timm"])
@pytest.mark.parametrize("fit", ["crop", "stretch"])
def test_it_goes_out_and_comes_back(to: str, fit: Any, tmp_path: Path, picture: Path) -> None:
    made = model("vit", replace(IMAGES, fit=fit, margin="floor" if to == "hf" else "round"))
    export(made, tmp_path / "out", to)
    assert (tmp_path / "out" / image_preparation.PREPROCESSOR_FILE).exists() == (to == "hf")
    back = regard.load(tmp_path / "out")
    assert back.processor == made.processor
    assert back.labels == LABELS
    assert back.classify(picture).ranked == made.classify(picture).ranked
    convert(tmp_path / "out", tmp_path / "ours")
    assert regard.load(tmp_path / "ours").processor == made.processor


def test_images_that_keep_their_form_are_never_told_as_squares() -> None:
    for shorter in (None, 800):
        ours = Images(size=1333, fit="within", shorter=shorter)
        told = image_preparation.to_transformers(ours.to_data())
        assert told is not None
        assert told["image_processor_type"] == "DetrImageProcessor"
        assert told["size"] == {"shortest_edge": shorter or 1333, "longest_edge": 1333}
        assert image_preparation.from_transformers(told, 3) == replace(ours, mean=(0.5,) * 3, std=(0.5,) * 3).to_data()
        assert image_preparation.to_timm(ours.to_data()) is None


@pytest.mark.parametrize("to", ["hf", "timm"])
def test_a_net_of_one_size_decides(to: str, tmp_path: Path, picture: Path) -> None:
    """Its first weights were trained with other images, and nobody changed what prepares them."""
    made = model("vit", Images(size=16))
    export(made, tmp_path / "out", to)
    file = "config.json" if to == "timm" else image_preparation.PREPROCESSOR_FILE
    data = json.loads((tmp_path / "out" / file).read_text())
    if to == "timm":
        data["pretrained_cfg"] |= {"input_size": [3, 224, 224], "crop_pct": 0.875, "crop_mode": "center"}
    else:
        data["size"] = {"height": 13, "width": 13}
    (tmp_path / "out" / file).write_text(json.dumps(data))
    back = regard.load(tmp_path / "out")
    assert isinstance(back.processor, Images)
    assert (back.processor.size, back.processor.shorter) == (16, 18 if to == "timm" else None)
    assert back.classify(picture).label in LABELS


def test_sizes_that_cannot_both_be_meant(tmp_path: Path, picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model("vit", replace(IMAGES, fit="stretch"))
    export(made, tmp_path / "out")
    data = json.loads((tmp_path / "out" / image_preparation.PREPROCESSOR_FILE).read_text())
    data |= {"crop_size": {"height": 14, "width": 14}}
    (tmp_path / "out" / image_preparation.PREPROCESSOR_FILE).write_text(json.dumps(data))
    assert main(["classify", str(tmp_path / "out"), str(picture)]) == 2
    said = capsys.readouterr().err
    assert "14 (" in said
    assert "16 x 16 in the model" in said
    regard.save(replace(made, processor=replace(IMAGES, size=14)), tmp_path / "ours")
    with pytest.raises(CheckpointError, match="the image sizes of the model and its processor differ"):
        regard.load(tmp_path / "ours")


def test_grey_and_any_size_are_not_for_everyone() -> None:
    assert image_preparation.to_transformers(Images(channels=1).to_data()) is None
    assert image_preparation.to_transformers(Images(size=None).to_data()) is None
    assert image_preparation.to_timm(Images(size=None).to_data()) is None
    grey = Images(size=28, channels=1, mean=(0.1,), std=(0.3,)).to_data()
    assert image_preparation.from_timm({"architecture": "", "pretrained_cfg": image_preparation.to_timm(grey)}) == grey
    for change in ({"crop_mode": "border"}, {"interpolation": "random"}, {"crop_pct": 0}, {"mean": None}):
        told = (image_preparation.to_timm(grey) or {}) | change
        assert image_preparation.from_timm({"pretrained_cfg": told}) is None
