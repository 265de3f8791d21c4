"""Boxes: every reference is followed, and what leads nowhere is named by its id."""

import copy
import io
import json
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from regard.errors import InputError
from regard.modalities.boxes.annotations import BoxedImages, open_boxes
from regard.modalities.images.processor import Images
from regard.nn.boxes import crowd_class, crowds

AS_IS = Images(size=None)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "deep").mkdir(parents=True)
    Image.new("RGB", (100, 50), "red").save(folder / "red.png")
    Image.new("RGB", (40, 40), "blue").save(folder / "deep" / "blue.png")
    (folder / "bad.png").write_bytes(b"GIF89a")
    return folder


def coco() -> dict[str, Any]:
    return {
        "info": {"year": 2014},
        "images": [
            {"id": 7, "file_name": "red.png", "width": 100, "height": 50},
            {"id": 3, "file_name": "deep/blue.png", "width": 40, "height": 40},
        ],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 90, "bbox": [0, 0, 40, 40], "iscrowd": 0},
            {"id": 2, "image_id": 7, "category_id": 18, "bbox": [10, 5, 20, 30.0]},
            {"id": 3, "image_id": 7, "category_id": 90, "bbox": [50.5, 0, 49.5, 50]},
        ],
        "categories": [{"id": 90, "name": "zebra"}, {"id": 18, "name": "dog"}, {"id": 20, "name": "cat"}],
    }


def opened(folder: Path, data: Any, images: Images = AS_IS, **options: Any) -> BoxedImages:
    path = folder.parent / "annotations.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return open_boxes(path, folder, images, **options)


def reasons(rows: BoxedImages) -> list[str]:
    assert all(fault.file.endswith("/annotations.json") for fault in rows.faults)
    return [fault.reason for fault in rows.faults]


def plain() -> list[dict[str, Any]]:
    return [
        {"image": "red.png", "width": 100, "height": 50, "split": "train", "boxes": [["dog", 10, 5, 30, 35]]},
        {"image": "deep/blue.png", "width": 40, "height": 40, "split": "test", "boxes": [["cat", 0, 0, 40, 40]]},
    ]


# ------------------------------------------------------------------------------------------------------------- both


def test_coco(folder: Path) -> None:
    rows = opened(folder, coco())
    assert (len(rows), rows.labels, reasons(rows)) == (2, ("dog", "cat", "zebra"), [])  # in the order of their ids
    red = rows[0]
    assert (red.image.dtype, tuple(red.image.shape), red.image[:, 0, 0].tolist()) == (
        torch.uint8,
        (3, 50, 100),
        [255, 0, 0],
    )
    assert (red.boxes.dtype, red.classes.dtype) == (torch.float32, torch.int64)
    assert red.classes.tolist() == [0, 2]
    torch.testing.assert_close(red.boxes, torch.tensor([[0.2, 0.4, 0.2, 0.6], [0.7525, 0.5, 0.495, 1.0]]))
    assert rows[1].boxes.tolist() == [[0.5, 0.5, 1.0, 1.0]]
    assert rows.sizes.tolist() == [[100, 50], [40, 40]]
    assert rows.lengths is not None
    assert rows.lengths.tolist() == [5000, 1600]
    assert rows.where(1) == str(folder / "deep/blue.png")
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            rows[wrong]


def test_a_stretched_image_keeps_its_boxes_and_a_crop_is_refused(folder: Path) -> None:
    rows = opened(folder, coco(), Images(size=32))
    assert rows[0].image.shape == (3, 32, 32)
    assert torch.equal(rows[0].boxes, opened(folder, coco())[0].boxes)
    assert rows.lengths is None
    with pytest.raises(InputError, match="cannot be cropped"):
        opened(folder, coco(), Images(size=32, fit="crop"))


def test_a_plain_list(folder: Path) -> None:
    rows = opened(folder, plain())
    assert (len(rows), rows.labels, reasons(rows)) == (2, ("cat", "dog"), [])
    torch.testing.assert_close(rows[0].boxes, torch.tensor([[0.2, 0.4, 0.2, 0.6]]))
    assert (rows[0].classes.tolist(), rows[1].classes.tolist()) == ([1], [0])
    rows = opened(folder, plain(), split="train")
    assert (len(rows), rows.labels, rows.names) == (1, ("cat", "dog"), ("red.png",))
    with pytest.raises(InputError, match="unknown split 'dev'") as caught:
        opened(folder, plain(), split="dev")
    assert caught.value.got == "test, train"
    with pytest.raises(InputError, match="no splits"):
        opened(folder, coco(), split="train")


def test_labels_of_the_training_data_keep_their_numbers(folder: Path) -> None:
    for data in (coco(), plain()):
        rows = opened(folder, data, labels=("zebra", "bird", "cat", "dog"))
        assert rows.labels == ("zebra", "bird", "cat", "dog")
        assert rows[0].classes[0] == 3
        with pytest.raises(InputError, match="some classes do not occur"):
            opened(folder, data, labels=("zebra", "cat"))


def test_images_in_an_archive(folder: Path) -> None:
    path = folder.parent / "images.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("red.png", "deep/blue.png"):
            file.write(folder / name, name)
    want, rows = opened(folder, coco()), open_boxes(folder.parent / "annotations.json", path, AS_IS)
    assert all(torch.equal(x, y) for i in range(2) for x, y in zip(rows[i], want[i], strict=True))


def test_an_image_without_boxes_is_a_row(folder: Path) -> None:
    data = coco()
    data["annotations"] = data["annotations"][1:]
    rows = opened(folder, data)
    assert (len(rows), rows[1].boxes.shape, rows[1].classes.shape) == (2, (0, 4), (0,))
    data["annotations"] = []
    assert opened(folder, data)[0].boxes.shape == (0, 4)


def test_a_crowd_is_told_apart_and_not_counted(folder: Path) -> None:
    data = coco()
    data["annotations"][1]["iscrowd"] = 1
    rows = opened(folder, data)
    assert (rows[0].classes.tolist(), reasons(rows)) == ([crowd_class(0), 2], [])
    assert rows.things().tolist() == [1, 1]
    is_crowd, labels = crowds(rows[0].classes)
    assert (is_crowd.tolist(), labels.tolist()) == ([True, False], [0, 2])


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image_id": 8}, "annotation 2: unknown image_id 8"),
        ({"image_id": None}, "annotation 2: unknown image_id NoneType"),
        ({"image_id": [7]}, "annotation 2: unknown image_id list"),
        ({"image_id": "7"}, "annotation 2: unknown image_id 7"),
        ({"category_id": 19}, "annotation 2: unknown category_id 19"),
        ({"category_id": {}}, "annotation 2: unknown category_id dict"),
        ({"bbox": [1, 2, 3]}, "annotation 2: bbox: expected [x, y, width, height], got [1, 2, 3]"),
        ({"bbox": [1, 2, 3, "4"]}, "annotation 2: bbox: expected [x, y, width, height], got [1, 2, 3, '4']"),
        ({"bbox": [1, 2, 3, True]}, "annotation 2: bbox: expected [x, y, width, height], got [1, 2, 3, True]"),
        ({"bbox": [1, 1, 1e308, 5]}, "annotation 2: bbox: coordinates beyond 1e+09 pixels: [1, 1, 1e+308, 5]"),
        ({"bbox": None}, "annotation 2: bbox: expected [x, y, width, height], got None"),
        ({"bbox": [1, 2, float("nan"), 4]}, "annotation 2: bbox: not finite: [1, 2, nan, 4]"),
        ({"bbox": [1, float("inf"), 3, 4]}, "annotation 2: bbox: not finite: [1, inf, 3, 4]"),
        ({"id": 1}, "annotation 1: duplicate id (position 2)"),
        ({"bbox": [1, 2, 0, 4]}, "annotation 2: the box has no area: 0 x 4"),
        ({"bbox": [1, 2, 5, -4]}, "annotation 2: the box has no area: 5 x -4"),
        ({"bbox": [1, -6, 5, 4]}, "annotation 2: the box 1, -6, 6, -2 is outside the image of 100 x 50 pixels"),
        ({"bbox": [100, 2, 0.5, 4]}, "annotation 2: the box 100, 2, 100.5, 6 is outside the image of 100 x 50 pixels"),
        ({"id": "x\n"}, ""),
    ],
)
def test_a_box_that_cannot_be_is_left_out_and_its_image_stays(
    folder: Path, change: dict[str, Any], reason: str
) -> None:
    data = coco()
    data["annotations"][1] |= change
    rows = opened(folder, data)
    assert reasons(rows) == ([reason] if reason else [])
    assert (len(rows), rows[0].classes.tolist()) == (2, [2] if reason else [0, 2])
    assert str([*rows.faults, ""][0]) in ("", f"{folder.parent}/annotations.json: {reason}")


def test_a_number_without_end_is_far_out(folder: Path) -> None:
    data = coco()
    data["annotations"][1]["bbox"] = [1, 2, 3, 10**400]
    (told,) = reasons(opened(folder, data))
    assert told.startswith("annotation 2: bbox: coordinates beyond 1e+09 pixels: [1, 2, 3, 1000")
    assert len(told) < 120


def test_numbers_that_are_none_are_told_of_what_has_them(folder: Path) -> None:
    data = [*plain(), {"image": float("nan"), "boxes": []}]
    data[0]["boxes"].append(["dog", 1, 2, float("nan"), 4])
    data[1]["width"] = float("inf")
    assert reasons(opened(folder, data)) == [
        "entry 1, box 2: not finite: [1, 2, nan, 4]",
        "entry 3: missing image or boxes",
        "entry 2 (deep/blue.png): the image has 40 x 40 pixels, the annotation says 0 x 40",
    ]


def test_a_file_that_two_images_name_is_taken_once(folder: Path) -> None:
    data = coco()
    data["images"].append({"id": 8, "file_name": "red.png", "width": 100, "height": 50})
    data["annotations"].append({"id": 4, "image_id": 8, "category_id": 90, "bbox": [0, 0, 10, 10]})
    rows = opened(folder, data)
    assert reasons(rows) == ["image 8: duplicate file red.png, already used by image 7"]
    assert (len(rows), rows[0].classes.tolist()) == (2, [0, 2])


def test_bad_boxes_are_known_among_what_is_bad(folder: Path) -> None:
    data = coco()
    data["images"].append({"id": 9, "file_name": "bad.png"})
    data["annotations"][1]["bbox"] = [0, 0, 0, 0]
    rows = opened(folder, data)
    assert len(rows.faults) == 2
    (bad,) = rows.bad_boxes
    assert bad.reason == "annotation 2: the box has no area: 0 x 0"


def test_a_box_just_outside_is_cut(folder: Path) -> None:
    data = coco()
    data["annotations"][1]["bbox"] = [-0.5, 20, 101.25, 31]
    rows = opened(folder, data)
    assert reasons(rows) == []
    assert rows.clipped == ()
    torch.testing.assert_close(rows[0].boxes[0], torch.tensor([0.5, 0.7, 1.0, 0.6]))


def test_a_box_that_reaches_beyond_its_image_is_clipped_and_told(folder: Path) -> None:
    data = coco()
    data["annotations"][1]["bbox"] = [80, -10, 40, 20]
    rows = opened(folder, data)
    assert (reasons(rows), rows.clipped) == ([], ("annotation 2",))
    assert rows[0].classes.tolist() == [0, 2]
    torch.testing.assert_close(rows[0].boxes[0], torch.tensor([0.9, 0.1, 0.2, 0.2]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file_name": "gone.png"}, "image 7 (gone.png): cannot be read: No such file or directory"),
        ({"file_name": "../images/red.png"}, "image 7 (../images/red.png): the path points outside the folder"),
        ({"file_name": 5}, "image 7: missing id or file_name"),
        ({"file_name": "\ud800.png"}, "image 7: missing id or file_name"),
        ({"id": None}, "image number 1: missing id or file_name"),
        ({"id": 3}, "image 3: duplicate id, already used by red.png"),
        (
            {"width": 50, "height": 100},
            "image 7 (red.png): the image has 100 x 50 pixels, the annotation says 50 x 100",
        ),
        ({"width": "100"}, "image 7 (red.png): the image has 100 x 50 pixels, the annotation says 0 x 50"),
        ({"height": None}, "image 7 (red.png): the image has 100 x 50 pixels, the annotation says 100 x 0"),
    ],
)
def test_an_image_that_cannot_be_is_left_out_with_its_boxes(folder: Path, change: dict[str, Any], reason: str) -> None:
    data = coco()
    data["images"][0] |= change
    data["annotations"] = [x for x in data["annotations"] if x["image_id"] == 3 or "id" not in change]
    if change.get("file_name") in (5, "\ud800.png"):
        data["annotations"] = data["annotations"][:1]
    rows = opened(folder, data)
    assert reasons(rows) == [reason]
    assert rows.names == (("red.png",) if change.get("id") == 3 else ("deep/blue.png",))


def test_damaged_images_are_named(folder: Path) -> None:
    data = coco()
    data["images"].append({"id": 9, "file_name": "bad.png"})
    rows = opened(folder, data)
    assert len(rows) == 2
    assert reasons(rows)[0].startswith("image 9 (bad.png): unsupported image format")


def test_sizes_need_not_be_told(folder: Path) -> None:
    data = coco()
    del data["images"][0]["width"], data["images"][0]["height"]
    assert opened(folder, data)[0].boxes[0].tolist() == opened(folder, coco())[0].boxes[0].tolist()


def test_boxes_are_measured_on_the_upright_image(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (50, 100), "red").save(folder / "red.png", exif=exif)
    assert reasons(opened(folder, coco())) == []
    assert opened(folder, coco())[0].image.shape == (3, 50, 100)


def test_bad_entries_of_a_plain_list(folder: Path) -> None:
    data = plain()
    data[0]["boxes"] += [["dog", 1, 2, 3], "dog", [], [None, 1, 2, 3, 4], ["dog", 5, 5, 5, 9], ["cat", 1, 1, 9, 9]]
    rows = opened(folder, [*data, 5, {"image": "red.png"}, {"image": "gone.png", "boxes": []}])
    told = "expected [class, left, top, right, bottom], got"
    shown = {2: "['dog', 1, 2, 3]", 3: "'dog'", 4: "[]", 5: "[None, 1, 2, 3, 4]"}
    assert sorted(reasons(rows)) == sorted(
        [
            *(f"entry 1, box {i}: {told} {x}" for i, x in shown.items()),
            "entry 1, box 6: the box has no area: 0 x 4",
            "entry 3: missing image or boxes",
            "entry 4: missing image or boxes",
            "entry 5 (gone.png): cannot be read: No such file or directory",
        ]
    )
    assert rows[0].classes.tolist() == [1, 0]


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deep"),
        ('{"images": [], "images": []}', "duplicate key 'images'"),
        ("5", "does not contain annotations"),
        ("[]", "no annotated images"),
        ("{}", "no list 'images'"),
        ('{"images": {}, "annotations": [], "categories": []}', "no list 'images'"),
        ('{"images": [], "annotations": [], "categories": []}', "the list of categories is empty"),
        ('{"images": [], "annotations": [], "categories": [{"id": 1}]}', "category 1: missing id or name"),
        ('{"images": [], "annotations": [], "categories": [5]}', "category number 1: missing id or name"),
        (
            '{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}',
            "duplicate id or name",
        ),
        (
            '{"images": [], "annotations": [], "categories": [{"id": 2, "name": "a"}, {"id": 1, "name": "a"}]}',
            "duplicate id or name",
        ),
        ('{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}]}', "no annotated images"),
    ],
)
def test_files_that_are_no_annotations(folder: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        opened(folder, text)
    assert str(folder.parent / "annotations.json") in str(caught.value)


def test_missing_files(folder: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        open_boxes(folder.parent / "gone.json", folder, AS_IS)
    with pytest.raises(InputError, match="no XML files"):
        open_boxes(folder, folder, AS_IS)
    opened(folder, coco())
    with pytest.raises(InputError, match=r"image folder or \.zip archive not found"):
        open_boxes(folder.parent / "annotations.json", folder.parent / "gone", AS_IS)


def test_no_junk_in_the_json_gives_anything_but_faults_or_an_error(folder: Path) -> None:
    luck = random.Random(0)
    junk: list[Any] = [None, True, 0, -1, 7, 1.5, "", "x", [], {}, [[]], {"id": 7}, "../x", 10**30, [1, 2, 3, 4]]
    outcomes: Counter[str] = Counter()
    for _ in range(150):
        data: Any = luck.choice([coco, plain])()
        for _ in range(luck.choice([1, 2, 3])):
            spoil(data, luck, junk)
        try:
            rows = opened(folder, data)
            for i in range(len(rows)):
                assert len(rows[i].boxes) == len(rows[i].classes)
                assert ((rows[i].boxes >= 0) & (rows[i].boxes <= 1)).all()
            outcomes["faults" if rows.faults else "fine"] += 1
        except InputError:
            outcomes["error"] += 1
    assert min(outcomes[key] for key in ("faults", "fine", "error")) > 10


def spoil(data: Any, luck: random.Random, junk: list[Any]) -> None:
    """Put junk somewhere into nested lists and tables."""
    while True:
        key = luck.choice(list(data) if isinstance(data, dict) else range(len(data))) if data else None
        if key is None:
            return
        if not isinstance(data[key], dict | list) or luck.random() < 0.2:
            data[key] = copy.deepcopy(luck.choice(junk))
            return
        data = data[key]


# --------------------------------------------------------------------------------------------------------- real data


def test_blood_cells(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "bccd"
    rows = open_boxes(folder / "annotations.json", folder / "images.zip", AS_IS, split="test")
    assert (len(rows), rows.labels, len(rows.faults)) == (72, ("Platelets", "RBC", "WBC"), 0)
    assert {tuple(size) for size in rows.sizes.tolist()} == {(640, 480)}
    entry = next(x for x in json.loads((folder / "annotations.json").read_text()) if x["split"] == "test")
    name, left, top, right, bottom = entry["boxes"][0]
    first = rows[0]
    assert (rows.names[0], rows.labels[int(first.classes[0])]) == (entry["image"], name)
    want = torch.tensor([(left + right) / 1280, (top + bottom) / 960, (right - left) / 640, (bottom - top) / 480])
    torch.testing.assert_close(first.boxes[0], want)
    raw = zipfile.ZipFile(folder / "images.zip").read(entry["image"])
    assert torch.equal(first.image, AS_IS.prepare(Image.open(io.BytesIO(raw))))
    counts = Counter(x[0] for entry in json.loads((folder / "annotations.json").read_text()) for x in entry["boxes"])
    assert counts == {"RBC": 4153, "WBC": 372, "Platelets": 361}
    assert sum(len(rows[i].boxes) for i in range(3)) == sum(len(rows[i].classes) for i in range(3)) > 30
