"""Generated shapes, VOC's files, and images that are cut and scaled along with their boxes."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from regard.data.counter_rng import AUGMENT, philox
from regard.errors import InputError
from regard.modalities.boxes.annotations import Boxed, BoxedImages, open_boxes
from regard.modalities.boxes.reframing import LEFT_OVER, Reframing, cut_along, mirrored
from regard.modalities.boxes.shapes import COMMON, LARGEST, SHAPE_NAMES, SMALLEST, Shapes, common, covered
from regard.modalities.images.processor import Images
from regard.nn.boxes import box_area, corners, crowd_class, intersection

VOC = """<annotation><filename>{image}</filename><size><width>100</width><height>50</height></size>
<object><name>dog</name><difficult>0</difficult>
<bndbox><xmin>11</xmin><ymin>6</ymin><xmax>30</xmax><ymax>35</ymax></bndbox></object>
<object><name>cat</name><difficult>1</difficult>
<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>100</xmax><ymax>50</ymax></bndbox></object></annotation>"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


# ------------------------------------------------------------------------------------------------------------- shapes


def test_an_image_is_drawn_by_its_address() -> None:
    """Whatever was drawn before, and however many there are."""
    one, two = Shapes(10, 3), Shapes(1000, 3)
    late = [two[i] for i in (7, 2)]
    for i, row in zip((7, 2), late, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one[i], row, strict=True))
    assert not torch.equal(Shapes(10, 4)[7].image, one[7].image)
    with pytest.raises(IndexError):
        one[10]
    with pytest.raises(InputError, match="invalid size or number of images"):
        Shapes(10, 0, side=8)


def test_boxes_are_within_and_have_little_in_common() -> None:
    rows = [Shapes(300, 0)[i] for i in range(300)]
    counts = torch.tensor([len(row.classes) for row in rows])
    assert counts.unique().tolist() == [1, 2, 3, 4]
    assert torch.bincount(torch.cat([row.classes for row in rows])).min() > 100
    for row in rows:
        found = corners(row.boxes)
        assert found.min() > -1e-6
        assert found.max() < 1 + 1e-6
        assert row.boxes[:, 2].min() >= SMALLEST - 1e-6
        assert row.boxes[:, 2].max() <= LARGEST + 1e-6
        both = intersection(found[:, None], found[None]) / torch.minimum(
            box_area(found)[:, None], box_area(found)[None]
        )
        assert (both - torch.eye(len(found))).max() <= COMMON + 1e-5


def test_what_two_boxes_share_is_counted_rightly() -> None:
    assert common((0.5, 0.5, 0.2, 0.2), (0.6, 0.5, 0.2, 0.2)) == pytest.approx(0.5)
    assert common((0.5, 0.5, 0.4, 0.4), (0.5, 0.5, 0.1, 0.1)) == pytest.approx(1.0)
    assert common((0.2, 0.2, 0.1, 0.1), (0.8, 0.2, 0.1, 0.1)) == 0


@pytest.mark.parametrize("kind", SHAPE_NAMES)
def test_a_shape_fills_its_box_to_the_edge(kind: str) -> None:
    """Its pixels end where the box ends, and its area is that of the figure."""
    ink = covered(kind, (0.5, 0.45, 0.4, 0.4), 100)
    rows, columns = np.flatnonzero(ink.max(1) > 0.3), np.flatnonzero(ink.max(0) > 0.3)
    for low, high, found in ((25, 65, rows), (30, 70, columns)):
        assert abs(found[0] - low) <= 2
        assert abs(found[-1] + 1 - high) <= 2
    want = {"square": 1600, "disc": np.pi * 400, "triangle": 800}[kind]
    assert ink.sum() == pytest.approx(want, rel=0.02)


# ---------------------------------------------------------------------------------------------------------------- VOC


def voc(tmp_path, **files: str) -> BoxedImages:
    folder, images = tmp_path / "Annotations", tmp_path / "JPEGImages"
    folder.mkdir(exist_ok=True)
    images.mkdir(exist_ok=True)
    Image.new("RGB", (100, 50), "red").save(images / "a.png")
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return open_boxes(folder, images, Images(size=None))


def test_voc_counts_pixels_from_one(tmp_path) -> None:
    rows = voc(tmp_path, a=VOC.format(image="a.png"))
    assert (len(rows), rows.labels, list(rows.faults)) == (1, ("cat", "dog"), [])
    assert rows.boxes[0].tolist() == [10, 5, 30, 35]
    assert rows.classes.tolist() == [1, crowd_class(0)]  # the difficult one is not asked for


def test_what_is_wrong_in_voc_is_named(tmp_path) -> None:
    rows = voc(
        tmp_path,
        a=VOC.format(image="a.png").replace("<ymax>35</ymax>", "<ymax>far</ymax>"),
        b=VOC.format(image="b.png"),
        c="<annotation><filename>",
        d='<!DOCTYPE x [<!ENTITY y "z">]><annotation/>',
        e="<annotation/>",
    )
    told = sorted(fault.reason for fault in rows.faults)
    assert len(rows) == 1
    assert [line.split(":")[0] for line in told] == ["a.xml, object 1", "b.xml (b.png)", "c.xml", "d.xml", "e.xml"]
    assert (
        told[0]
        == "a.xml, object 1: bndbox: expected four numbers, xmin, ymin, xmax, ymax, got ['11', '6', '30', 'far']"
    )
    assert "document type" in told[3]
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no XML files"):
        open_boxes(tmp_path / "none", tmp_path / "JPEGImages", Images(size=None))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("<ymax>35<", "<ymax>nan<", "bndbox: not finite: [11.0, 6.0, 30.0, nan]"),
        ("<ymax>35<", "<ymax>1e300<", "bndbox: coordinates beyond 1e+09 pixels: [11.0, 6.0, 30.0, 1e+300]"),
        ("<name>dog<", "<name><", "missing or invalid name: ''"),
    ],
)
def test_what_is_wrong_with_a_thing_of_voc(tmp_path, old: str, new: str, told: str) -> None:
    rows = voc(tmp_path, a=VOC.format(image="a.png").replace(old, new))
    assert [fault.reason for fault in rows.bad_boxes] == [f"a.xml, object 1: {told}"]


def test_a_box_of_voc_is_clipped_to_its_image(tmp_path) -> None:
    rows = voc(tmp_path, a=VOC.format(image="a.png").replace("<xmax>30<", "<xmax>130<"))
    assert (list(rows.faults), rows.clipped) == ([], ("a.xml, object 1",))
    assert rows.boxes[0].tolist() == [10, 5, 100, 35]


def test_a_split_of_voc_is_a_list_of_names(tmp_path) -> None:
    voc(tmp_path, a=VOC.format(image="a.png"), b=VOC.format(image="a.png"))
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("b\nmissing 1\n")
    rows = open_boxes(tmp_path / "Annotations", tmp_path / "JPEGImages", Images(size=None), split="train")
    assert len(rows) == 1
    assert "missing" in rows.faults[0].reason
    for wrong in ("val", "../train"):
        with pytest.raises(InputError, match="unknown split"):
            open_boxes(tmp_path / "Annotations", tmp_path / "JPEGImages", Images(size=None), split=wrong)


# ----------------------------------------------------------------------------------------------- cut, scaled, mirrored


def marked(width: int = 80, height: int = 60) -> Boxed:
    """White boxes on black, so that the image itself tells where they are."""
    image = torch.zeros(3, height, width, dtype=torch.uint8)
    image[:, 12:24, 8:40] = 255
    image[:, 36:54, 56:72] = 255
    boxes = torch.tensor([[24 / 80, 18 / 60, 32 / 80, 12 / 60], [64 / 80, 45 / 60, 16 / 80, 18 / 60]])
    return Boxed(image, boxes, torch.tensor([0, 1]))


def painted(row: Boxed) -> Tensor:
    """The image that the boxes alone tell."""
    _, height, width = row.image.shape
    drawn = torch.zeros(height, width)
    size = torch.tensor([width, height, width, height])
    for left, top, right, bottom in (corners(row.boxes) * size).round().int().tolist():
        drawn[top:bottom, left:right] = 1
    return drawn


def test_boxes_follow_their_image() -> None:
    """Over many draws: what is white is what the boxes say, but for the pixels at the edges."""
    seen = set()
    for step in range(60):
        row = Reframing()(marked(), philox(AUGMENT, 0, step, 0))
        bright = row.image[0].float() / 255
        assert max(row.image.shape[1:]) <= 80
        assert max(row.image.shape[1:]) >= 0.8 * 80 - 1
        if len(row.classes) == 2:
            assert (bright - painted(row)).abs().mean() < 0.04
        seen.add((len(row.classes), tuple(row.image.shape[1:])))
    assert len(seen) > 30
    assert {count for count, _ in seen} == {1, 2}


def test_the_same_numbers_make_the_same_image() -> None:
    one, two = (Reframing()(marked(), philox(AUGMENT, 0, 5, 2)) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(one, two, strict=True))
    still = Reframing(mirror=0.0, cut=0.0, scale=1.0)(marked(), philox(AUGMENT, 0, 5, 2))
    assert all(torch.equal(x, y) for x, y in zip(still, marked(), strict=True))


def test_mirrored_twice_is_as_before() -> None:
    once = mirrored(marked())
    torch.testing.assert_close(once.boxes[:, 0], torch.tensor([56 / 80, 16 / 80]))
    assert torch.equal(once.image[:, :, 0], marked().image[:, :, -1])
    torch.testing.assert_close(mirrored(once).boxes, marked().boxes)


def test_a_box_of_which_little_is_left_goes() -> None:
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.2]])
    for left, kept in ((0.4 + 0.2 * LEFT_OVER + 0.01, True), (0.4 + 0.2 * LEFT_OVER - 0.01, False)):
        found, stays = cut_along(boxes, (0.0, 0.0, left, 1.0))
        assert stays.tolist() == [kept]
        assert float(corners(found)[0, 2]) == pytest.approx(1.0)


def test_within_keeps_the_form_of_an_image() -> None:
    images = Images(size=32, fit="within")
    assert images.prepare(Image.new("RGB", (100, 50))).shape == (3, 16, 32)
    assert images.prepare(Image.new("RGB", (5, 500))).shape == (3, 32, 1)
    assert images.within(640, 480) == (32, 24)
