"""Images with boxes, for detection.

    COCO, https://cocodataset.org/#format-data:
        {"images": [{"id", "file_name", "width", "height"}], "categories": [{"id", "name"}],
         "annotations": [{"id", "image_id", "category_id", "bbox": [x, y, w, h], "iscrowd"}]}
    or a plain list:
        [{"image", "width", "height", "split", "boxes": [["class", x1, y1, x2, y2]]}]
    or Pascal VOC's folder of XML files (``voc.py``).

Beside it is the folder of the images, or their zip archive. Boxes are measured on the upright image, from its top left
corner. A box that reaches beyond the image is clipped to it. One that cannot be is left out, and its image stays; an
image that cannot be read is left out with its boxes.
"""

import json
import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.faults import Fault, printable
from regard.data.locations import DataPlace, open_place, shown_path
from regard.data.rows import IntegerArray
from regard.errors import InputError
from regard.modalities.images.checks import ImageCheck, check_images
from regard.modalities.images.processor import Images, pixel_counts
from regard.nn.boxes import crowd_class
from regard.storage.documents import reject_duplicates

JSON_BYTES = 1 << 30  # COCO's own has half of it
SLACK = 1.0  # pixels by which a box may reach beyond the image before anybody is told: annotators round
FAR = 1e9  # no honest coordinate is larger

Corners = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


class Boxed(NamedTuple):
    """One example."""

    image: Tensor  # (c, h, w), uint8
    boxes: Tensor  # (m, 4), float32: centre x, centre y, width, height, as shares of the image
    classes: Tensor  # (m,), int64; of a crowd, as ``crowd_class`` has it


@dataclass
class AnnotatedImage:
    """An image as the annotations tell of it."""

    what: str  # its name in a report
    name: str
    size: tuple[int, int] | None  # width, height, if told
    boxes: list["AnnotatedBox"] = field(default_factory=list)


class AnnotatedBox(NamedTuple):
    what: str  # its name in a report
    corners: Corners
    label: int
    crowd: bool = False  # COCO's crowds, VOC's difficult things: neither learned from nor asked for


class Annotations(NamedTuple):
    labels: tuple[str, ...]
    drawn: list[AnnotatedImage]


class BoxedImages:
    """Rows: images that are read when asked for, and their boxes."""

    def __init__(
        self,
        place: DataPlace,
        drawn: Sequence[AnnotatedImage],
        findings: Sequence[ImageCheck],
        labels: Sequence[str],
        images: Images,
        report: "AnnotationProblems",
    ) -> None:
        self.place, self.names, self.images = place, tuple(one.name for one in drawn), images
        self.labels, self.lengths = tuple(labels), pixel_counts(findings, images)
        self.faults, self.bad_boxes = tuple(report.faults), tuple(report.boxes)  # the second are some of the first
        self.clipped = tuple(report.clipped)
        self.sizes: IntegerArray = np.array([x[:2] for x in findings], np.int64).reshape(-1, 2)  # (n, 2): width, height
        self.starts = np.cumsum([0, *(len(one.boxes) for one in drawn)])  # boxes of image i: from i to i + 1
        every = [box for one in drawn for box in one.boxes]
        self.boxes = torch.tensor([box.corners for box in every], dtype=torch.float64).reshape(-1, 4)
        numbers = [crowd_class(box.label) if box.crowd else box.label for box in every]
        self.classes = torch.tensor(numbers, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Boxed:
        if not 0 <= i < len(self):
            raise IndexError(f"image index {i} is out of range for {len(self)} images")
        some = slice(int(self.starts[i]), int(self.starts[i + 1]))
        shares = self.boxes[some] / torch.from_numpy(np.tile(self.sizes[i], 2))
        low, high = shares[:, :2], shares[:, 2:]
        boxes = torch.cat([(low + high) / 2, high - low], dim=1).float()
        return Boxed(self.images.take(self.place, self.names[i]), boxes, self.classes[some])

    def where(self, i: int) -> str:
        return shown_path(self.place, self.names[i])

    def things(self) -> IntegerArray:
        """How many there are to be found in each image.  -> (n,)"""
        before = np.concatenate([[0], np.cumsum(self.classes.numpy() >= 0)])
        return before[self.starts[1:]] - before[self.starts[:-1]]


def open_boxes(
    annotations: Path, folder: Path, images: Images, *, split: str | None = None, labels: Sequence[str] | None = None
) -> BoxedImages:
    """Open annotations in any of the formats. ``split`` selects images of a plain list or of VOC. Pass the ``labels``
    of the training data to read other data for the same net, so that each class keeps its index."""
    if images.fit != "within" and images.size is not None and (images.fit == "crop" or images.shorter is not None):
        raise InputError(
            "images with boxes cannot be cropped",
            got="an image processor that crops",
            expected="fit = 'within' or 'stretch'",
        )
    path, place = Path(annotations), open_place(folder)
    report = AnnotationProblems(path)
    data = None if path.is_dir() else read_annotations(path)
    if data is None:
        from .voc import read_voc  # which is made of what stands here

        names, drawn = read_voc(path, split, labels, report)
    elif isinstance(data, dict):
        if split is not None:
            raise InputError("a COCO file has no splits", where=str(path), got=f"split = {split!r}")
        names, drawn = coco(data, labels, report)
    else:
        names, drawn = plain_list(data, split, labels, report)
    findings = check_images(place, [one.name for one in drawn])
    good = [i for i, one in enumerate(drawn) if fits(one, findings[i], report)]
    if not good and not report.faults:
        raise InputError("no annotated images found", where=str(path), got=f"split = {split!r}" if split else "")
    return BoxedImages(place, [drawn[i] for i in good], [findings[i] for i in good], names, images, report)


class AnnotationProblems:
    """What is wrong, and with what. JSON has no lines to speak of: each thing is called by its id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.boxes: list[Fault] = []  # those of them that are of single boxes, whose images stay
        self.clipped: list[str] = []  # boxes of which a part was beyond the image

    def add(self, what: str, reason: str) -> None:
        self.faults.append(Fault(str(self.path), 0, f"{what}: {reason}"))

    def add_box(self, what: str, reason: str) -> None:
        self.add(what, reason)
        self.boxes.append(self.faults[-1])

    def refuse(self, reason: str, got: object = "", expected: str = "") -> InputError:
        return InputError(reason, where=str(self.path), got=printable(str(got)[:200]), expected=expected)


def fits(one: AnnotatedImage, finding: ImageCheck, report: AnnotationProblems) -> bool:
    """Whether the image is what the annotations say. Boxes are clipped to it, and those outside of it taken out."""
    if finding.reason:
        report.add(f"{one.what} ({printable(one.name)})", finding.reason)
        return False
    size = finding.width, finding.height
    if one.size is not None and one.size != size:
        told = " x ".join(map(str, one.size))
        report.add(
            f"{one.what} ({printable(one.name)})",
            f"the image has {size[0]} x {size[1]} pixels, the annotation says {told}",
        )
        return False
    kept = []
    for box in one.boxes:
        left, top, right, bottom = box.corners
        inner = max(left, 0.0), max(top, 0.0), min(right, float(size[0])), min(bottom, float(size[1]))
        over = max(-left, -top, right - size[0], bottom - size[1])
        if not (left < right and top < bottom):
            report.add_box(box.what, f"the box has no area: {right - left:g} x {bottom - top:g}")
        elif inner[0] >= inner[2] or inner[1] >= inner[3]:
            corners = ", ".join(f"{x:g}" for x in box.corners)
            report.add_box(box.what, f"the box {corners} is outside the image of {size[0]} x {size[1]} pixels")
        else:
            report.clipped += [box.what] if over > SLACK else []
            kept.append(box._replace(corners=inner))
    one.boxes = kept
    return True


def read_annotations(path: Path) -> dict[str, Any] | list[Any]:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > JSON_BYTES:
            raise InputError(f"{path.name} is not a file of at most {JSON_BYTES} bytes", where=str(path), got=f"{size}")
        text = path.read_bytes().decode("utf-8-sig")
        data = json.loads(
            text, object_pairs_hook=reject_duplicates
        )  # a NaN is read too, and then told of the box that has it
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path.name} cannot be read", where=str(path), got=error.strerror or "") from None
    except (ValueError, RecursionError) as error:
        got = "nested too deeply" if isinstance(error, RecursionError) else printable(str(error)[:200])
        raise InputError(f"{path.name} is not valid JSON", where=str(path), got=got) from None
    if not isinstance(data, dict | list):
        raise InputError(f"{path.name} does not contain annotations", where=str(path), expected="an object or a list")
    return data


def coco(data: dict[str, Any], labels: Sequence[str] | None, report: AnnotationProblems) -> Annotations:
    """The names of the classes, in the order of their ids, and the images."""
    for key in ("images", "annotations", "categories"):
        if not isinstance(data.get(key), list):
            raise report.refuse(
                f"the COCO file has no list {key!r}",
                ", ".join(map(str, data)),
                "the keys images, annotations and categories",
            )
    categories = read_categories(data["categories"], report)
    names = tuple(categories[i] for i in sorted(categories, key=lambda i: (isinstance(i, str), i)))
    numbers = numbered(names, labels, report)
    drawn: dict[int | str, AnnotatedImage] = {}
    owners: dict[str, str] = {}  # of each file, who named it first
    twice: set[int | str] = set()  # images that are left out, and their boxes with them
    for place, found in enumerate(data["images"], 1):
        what = called("image", found, place)
        if not isinstance(found, dict) or not known_id(found.get("id")) or not is_text(found.get("file_name")):
            report.add(what, "missing id or file_name")
        elif found["id"] in drawn:
            report.add(what, f"duplicate id, already used by {printable(drawn[found['id']].name)}")
        elif (name := found["file_name"]) in owners:
            report.add(what, f"duplicate file {printable(name)}, already used by {owners[name]}")
            twice.add(found["id"])
        else:
            drawn[found["id"]] = AnnotatedImage(what, name, told_size(found))
            owners[name] = what
    ids: set[int | str] = set()
    for place, found in enumerate(data["annotations"], 1):
        what = called("annotation", found, place)
        if not isinstance(found, dict):
            report.add_box(what, "not a JSON object")
            continue
        name, image, category = found.get("id"), found.get("image_id"), found.get("category_id")
        if known_id(image) and image in twice:
            continue
        if known_id(name) and name in ids:
            report.add_box(what, f"duplicate id (position {place})")
        elif not known_id(image) or image not in drawn:
            report.add_box(what, f"unknown image_id {shown(image)}")
        elif not known_id(category) or category not in categories:
            report.add_box(what, f"unknown category_id {shown(category)}")
        elif reason := flaw(found.get("bbox"), "[x, y, width, height]"):
            report.add_box(what, f"bbox: {reason}")
        else:
            left, top, width, height = map(float, found["bbox"])
            box = left, top, left + width, top + height
            drawn[image].boxes.append(AnnotatedBox(what, box, numbers[categories[category]], found.get("iscrowd") == 1))
        ids |= {name} if known_id(name) else set()
    return Annotations(tuple(names if labels is None else labels), list(drawn.values()))


def read_categories(found: list[Any], report: AnnotationProblems) -> dict[int | str, str]:
    categories: dict[int | str, str] = {}
    for place, one in enumerate(found, 1):
        what = called("category", one, place)
        if not isinstance(one, dict) or not known_id(one.get("id")) or not is_text(one.get("name")):
            raise report.refuse(f"{what}: missing id or name")
        if one["id"] in categories or one["name"] in categories.values():
            raise report.refuse(f"{what}: duplicate id or name", one["name"])
        categories[one["id"]] = one["name"]
    if not categories:
        raise report.refuse("the list of categories is empty")
    return categories


def plain_list(
    data: list[Any], split: str | None, labels: Sequence[str] | None, report: AnnotationProblems
) -> Annotations:
    """The names of the classes of all splits, sorted, and the images of one."""
    names = tuple(sorted({box[0] for entry in data for box in boxes_of(entry) if box and is_text(box[0])}))
    numbers = numbered(names, labels, report)
    splits = sorted({str(entry.get("split")) for entry in data if isinstance(entry, dict)})
    if split is not None and split not in splits:
        raise report.refuse(f"unknown split {split!r}", ", ".join(splits))
    drawn = []
    for place, entry in enumerate(data, 1):
        what = f"entry {place}"
        if not isinstance(entry, dict) or not is_text(entry.get("image")) or not isinstance(entry.get("boxes"), list):
            report.add(what, "missing image or boxes")
            continue
        if split is not None and entry.get("split") != split:
            continue
        one = AnnotatedImage(what, entry["image"], told_size(entry))
        for j, box in enumerate(entry["boxes"], 1):
            told = "[class, left, top, right, bottom]"
            if not isinstance(box, list) or len(box) != 5 or not is_text(box[0]):
                report.add_box(f"{what}, box {j}", f"expected {told}, got {brief(box)}")
            elif reason := flaw(box[1:], told):
                report.add_box(f"{what}, box {j}", reason)
            else:
                left, top, right, bottom = map(float, box[1:])
                one.boxes.append(AnnotatedBox(f"{what}, box {j}", (left, top, right, bottom), numbers[box[0]]))
        drawn.append(one)
    return Annotations(tuple(names if labels is None else labels), drawn)


def boxes_of(entry: Any) -> Iterator[list[Any]]:
    boxes = entry.get("boxes") if isinstance(entry, dict) else None
    return (box for box in (boxes if isinstance(boxes, list) else ()) if isinstance(box, list))


def numbered(names: Sequence[str], labels: Sequence[str] | None, report: AnnotationProblems) -> dict[str, int]:
    numbers = {label: i for i, label in enumerate(names if labels is None else labels)}
    if unknown := [name for name in names if name not in numbers]:
        raise report.refuse("some classes do not occur in the training data", ", ".join(unknown), ", ".join(numbers))
    return numbers


def flaw(found: object, form: str) -> str:
    """What keeps something from being four honest numbers; empty where nothing does."""
    if not isinstance(found, list) or len(found) != 4 or not all(type(x) in (int, float) for x in found):
        return f"expected {form}, got {brief(found)}"
    if not all(abs(x) < math.inf for x in found):
        return f"not finite: {brief(found)}"
    return "" if all(abs(x) <= FAR for x in found) else f"coordinates beyond {FAR:g} pixels: {brief(found)}"


def brief(found: object) -> str:
    """A value as it was given, as far as a line holds it."""
    return printable(reprlib.repr(found))


def told_size(found: dict[str, Any]) -> tuple[int, int] | None:
    """What is told of width and height; a wrong kind of value is told as 0, which no image has."""
    width, height = found.get("width"), found.get("height")
    if width is None and height is None:
        return None
    return width if type(width) is int else 0, height if type(height) is int else 0


def known_id(found: object) -> bool:
    return type(found) in (int, str)


def is_text(found: object) -> bool:
    return isinstance(found, str) and bool(found.strip()) and found.isprintable()


def shown(found: object) -> str:
    return printable(str(found)[:40]) if known_id(found) else type(found).__name__


def called(kind: str, found: object, place: int) -> str:
    """By its id, or by its place in the list."""
    name = found.get("id") if isinstance(found, dict) else None
    return f"{kind} {shown(name)}" if known_id(name) else f"{kind} number {place}"
