"""Images with boxes, in files."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from regard.data.faults import check_fault_share, printable
from regard.data.files import find_file
from regard.data.rows import Rows, Subset
from regard.errors import InputError, first_of
from regard.modalities.boxes.annotations import BoxedImages, open_boxes
from regard.modalities.images.preparation import base_processor, not_deviations
from regard.modalities.images.processor import Images
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS, check_disjoint, check_splits
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

PHOTO_MEAN, PHOTO_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as DETR has it
SHOWN = 5  # images or boxes that are named


@dataclass(frozen=True)
class BoxFiles:
    """Images with bounding boxes: COCO JSON, a JSON list or a folder of Pascal VOC XML files; and the images."""

    kind: Literal["boxes"] = "boxes"
    train: str = required_setting("training annotations: COCO JSON, a JSON list, or a folder of Pascal VOC XML files")
    held_out: str = setting(
        "", "validation annotations in the same form, evaluated during training; empty: a fraction of train"
    )
    test: str = setting("", "test annotations in the same form for `regard evaluate --split test`")
    images: tuple[str, ...] = required_setting(
        "folder or zip archive of the images: one for all, or one each for train, held_out and test"
    )
    splits: tuple[str, ...] = setting(
        (), "names of the splits for train, held_out and test, in a JSON list or Pascal VOC"
    )
    longest: int = setting(320, "image size: pixels of the longer side")
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(
        0.01, "maximum fraction of unreadable images, and of invalid boxes; above it the run does not start"
    )
    batch: int = setting(8, "batch size in images")
    mirror: float = setting(0.5, "augmentation: probability of a horizontal flip")
    cut: float = setting(0.5, "augmentation: probability of a random crop")
    part: float = setting(0.6, "augmentation: minimum size of the crop, as a fraction of each side")
    scale: float = setting(0.8, "augmentation: minimum scale of the image; the maximum is 1")
    mean: tuple[float, ...] = setting(PHOTO_MEAN, "pixel mean for normalisation (0 is black, 1 white), per channel")
    deviation: tuple[float, ...] = setting(PHOTO_DEVIATION, "pixel standard deviation for normalisation, per channel")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + (
            [] if self.train or self.train is None else ["train is empty: expected a file or a folder"]
        )
        if self.images is not None and len(self.images) not in (1, 3):
            wrong += [f"images = {list(self.images)} must have 1 or 3 entries"]
        if self.splits is not None and len(self.splits) not in (0, 2, 3):
            wrong += [f"splits = {list(self.splits)} must have 2 or 3 entries"]
        if self.splits and len(set(self.splits)) < len(self.splits):
            wrong += [f"splits = {list(self.splits)} has duplicates"]
        if self.splits and (self.held_out or self.test):
            wrong += ["splits and held_out or test are both set: splits are parts of train's file"]
        wrong += not_deviations(self.deviation)
        wrong += [
            f"{name} = {value} is above 1"
            for name in ("mirror", "cut", "part", "scale")
            if (value := getattr(self, name)) is not None and value > 1
        ]
        refuse(wrong, not_at_least(16, self, "longest"), not_at_least(0, self, "mirror", "cut"))
        refuse(not_shares(self, "share", "bad"), not_above_zero(self, "share", "part", "scale"))

    def as_usual(self) -> bool:
        return self.mean == PHOTO_MEAN and self.deviation == PHOTO_DEVIATION


def open_box_files(plan: RunPlan) -> OpenedData:
    data = plan.data
    images = as_known(
        plan, Images(size=data.longest, fit="within", mean=data.mean, std=data.deviation), data.as_usual()
    )
    splits, names = box_rows(plan, images)
    check_disjoint(splits)
    opened = check_splits(splits, data.bad, data.share, plan.seed, images, names, tolerated_boxes)
    return replace(opened, notes=clipped(opened.splits.values()))


def as_known(plan: RunPlan, images: Images, usual: bool) -> Images:
    """Each image keeps its form. Pixels become the numbers that the weights of [start] know, unless the run says
    otherwise."""
    base = base_processor(plan)
    return replace(images, mean=base.mean, std=base.std, filter=base.filter) if base is not None and usual else images


def box_rows(plan: RunPlan, images: Images) -> tuple[dict[str, Rows], tuple[str, ...]]:
    """Every split, and the names of the classes, which are those of train."""
    data, splits = plan.data, dict[str, Rows]()
    files = (data.train,) * len(data.splits) or (data.train, data.held_out, data.test)
    names: tuple[str, ...] = ()
    for i, (split, file) in enumerate(zip(SPLITS, files, strict=False)):
        if file:
            folder = find_file(data.images[i % len(data.images)], plan.base)
            part = data.splits[i] if data.splits else None
            rows = open_boxes(find_file(file, plan.base), folder, images, split=part, labels=names or None)
            if split == "train" and not rows.things().any() and not rows.bad_boxes:
                raise InputError(
                    "the training data has no boxes",
                    where=str(find_file(file, plan.base)),
                    got=f"{len(rows)} images" + (f" in the split {part!r}" if part else ""),
                    fix="check that data.train and data.splits name annotated images",
                )
            names, splits[split] = rows.labels, rows
    return splits, names


def tolerated_boxes(rows: BoxedImages, bad: float, name: str) -> None:
    """Images and boxes each by themselves: an image has many boxes, which would hide that every tenth image is bad."""
    boxes = set(rows.bad_boxes)
    images = [fault for fault in rows.faults if fault not in boxes]
    check_fault_share(images, len(rows) + len(images), bad, name, "image images")
    if boxes:
        check_fault_share(rows.bad_boxes, len(rows.boxes) + len(rows.bad_boxes), bad, name, "box boxes")


def clipped(splits: Iterable[Rows]) -> tuple[str, ...]:
    """How many boxes reached beyond their images, and which."""
    every = [rows.source if isinstance(rows, Subset) else rows for rows in splits]  # of two parts, one source twice
    sources = {id(rows): rows for rows in every if isinstance(rows, BoxedImages)}.values()
    names = [name for rows in sources for name in rows.clipped]
    if not names:
        return ()
    total = sum(len(rows.boxes) for rows in sources)
    what = f"{len(names):,} of {total:,} boxes extend beyond their images and are clipped"
    return (f"{what}: {'; '.join(first_of([printable(name) for name in names], SHOWN))}",)


def example(folder: Path) -> dict[str, Any]:
    (folder / "images").mkdir()
    rows = []
    for i in range(8):
        image = Image.new("RGB", (32, 32), (20 * i, 128, 128))
        image.paste((255, 0, 0), (4, 4, 16, 16))
        image.save(folder / "images" / f"{i}.png")
        rows.append({"id": i, "file_name": f"{i}.png", "width": 32, "height": 32})
    boxes = [{"id": i, "image_id": i, "category_id": 1 + i % 2, "bbox": [4, 4, 12, 12]} for i in range(8)]
    names = [{"id": 1, "name": "square"}, {"id": 2, "name": "other"}]
    told = {"images": rows, "annotations": boxes, "categories": names}
    (folder / "boxes.json").write_text(json.dumps(told), "utf-8")
    return {"train": "boxes.json", "images": ["images"], "share": 0.25, "batch": 2, "longest": 32}


KIND = DataKind(
    BoxFiles,
    ("image",),
    open_box_files,
    paths=(*SPLITS, "images"),
    example=example,
    store="regard.modalities.boxes.storing:store_boxes",
)
