"""The data of a run that sees: images found, opened and prepared, and put into batches."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.batches import Batches
from regard.data.captions import Captions
from regard.data.digits import COUNT, TEST, Digits
from regard.data.faults import Fault
from regard.data.idx import open_idx
from regard.data.images import Images, open_images
from regard.data.images import Labelled as Example
from regard.data.order import Order
from regard.data.randaugment import to_image
from regard.data.rows import Numbers, Rows
from regard.data.sheets import open_sheet
from regard.errors import InputError
from regard.tasks.classify import Labelled

from .augmentation import NONE, augmented
from .beginning import kind_of
from .inputs import CaptionFiles, DigitImages, ImageFiles, Pictures
from .named import named_model
from .settings import Run


def images_of(run: Run) -> Images:
    """How images are prepared: as those of the model that the run starts from, unless it says otherwise; of the size
    that its config tells, or where that tells none, the data."""
    data = run.data
    assert isinstance(data, Pictures | CaptionFiles)
    _, config = kind_of(run)
    base = None if run.start is None else named_model(run.start.model).processor
    base = base.images if isinstance(base, Captions) else base
    usual = base if isinstance(base, Images) and data.as_usual() else None
    own = getattr(config, "image", None)
    size = own or data.size or (usual.size if usual is not None else None)
    if size is None:
        family = run.model.get("name", "model")
        raise InputError(f"a {family} takes images of any size", where="data.size", fix="set data.size, such as 32")
    if own and data.size and own != data.size:
        got = f"data.size = {data.size}, model.image = {own}"
        raise InputError("data and model differ in the size of images", got=got, fix="leave data.size out")
    if usual is not None:
        return replace(usual, size=size, shorter=None, channels=config.channels)
    try:
        return Images(size=size, fit=data.fit, channels=config.channels, mean=data.mean, std=data.deviation)
    except ValueError as error:
        raise InputError("images cannot be prepared so", where="data.mean, data.deviation", got=str(error)) from None


def scene_images(run: Run) -> Images:
    """Of what code draws: at the size of the model."""
    _, config = kind_of(run)
    return Images(size=config.image, channels=config.channels)


def uncut(images: Images, area: float) -> Images:
    """How images are read of which parts of this area are cut out: whole, for a part of a small image would be
    blurred."""
    return images if area == 1 else replace(images, size=None, fit="stretch", shorter=None)


Found = Callable[[str, Path], Path]


def image_rows(data: Pictures, images: Images, base: Path, found: Found) -> tuple[dict[str, Rows], tuple[str, ...]]:
    """The rows of each split that there are files for, which ``found`` looks for, and the names of the labels."""
    reading = uncut(images, data.augment.area)
    splits: dict[str, Rows]
    if isinstance(data, DigitImages):
        splits = {"train": Digits(reading, 0, COUNT - TEST), "test": Digits(images, COUNT - TEST, COUNT)}
        return splits, Digits.labels
    train = open_split(data, found(data.train, base), "train", reading, data.labels or None)
    if len(train.labels) < 2 and not data.labels:
        raise InputError(
            "all images have the same label, so there is nothing to learn",
            where=str(found(data.train, base)),
            got=", ".join(map(repr, train.labels)) or "none",
            expected="a folder for each of several labels, or a table with several",
        )
    splits = {"train": train}
    for split, name in (("held_out", data.held_out), ("test", data.test)):
        if name:
            splits[split] = open_split(data, found(name, base), split, images, train.labels)
    folder = found(data.train, base)
    if "test" not in splits and is_idx(folder) and any(x.startswith(("test", "t10k")) for x in os.listdir(folder)):
        splits["test"] = open_idx(folder, "test", images, train.labels)
    return splits, tuple(train.labels)


def open_split(data: ImageFiles, path: Path, split: str, images: Images, labels: Sequence[str] | None) -> Any:
    """A sheet of tiles, a folder of idx files, or a folder or archive of images."""
    if path.is_file() and path.suffix.lower() != ".zip":
        if not data.tile:
            fix = "set data.tile to the side of its tiles, or name a folder"
            raise InputError("this is one file: a sheet of tiles?", where=str(path), fix=fix)
        return open_sheet(path, (data.tile, data.tile), targets_of(path), images, labels)
    if is_idx(path):
        return open_idx(path, split, images, labels)
    return open_images(path, images, labels, "data.labels" if data.labels else "the training data")


def is_idx(folder: Path) -> bool:
    return folder.is_dir() and any("-ubyte" in name for name in os.listdir(folder))


def targets_of(sheet: Path) -> Path:
    """The labels of a sheet's tiles stand beside it: of train.webp, in train_labels.npy."""
    return sheet.with_name(f"{sheet.stem}_labels.npy")


class Prepared:
    """Rows that were read whole, prepared as they are in use: what is held out of such."""

    def __init__(self, rows: Rows, images: Images) -> None:
        self.source, self.images = rows, images
        self.faults: Sequence[Fault] = rows.faults
        self.lengths: Numbers | None = None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> Example:
        row = self.source[i]
        return Example(self.images.prepare(to_image(row.image)), row.label)

    def where(self, i: int) -> str:
        return self.source.where(i)


def in_batches(run: Run, splits: dict[str, Rows], images: Images, classes: int) -> dict[str, Batches]:
    """Train shuffled, and changed at random where that is asked for; the others as they are, in their order."""
    data = run.data
    assert isinstance(data, Pictures)
    found: dict[str, Batches] = {}
    for split, rows in splits.items():
        shuffled = split == "train"
        if shuffled and data.augment != NONE:
            found[split] = augmented(rows, images, data.augment, batch=data.batch, classes=classes, seed=run.seed)
        else:
            order = Order(len(rows), rows=data.batch, seed=run.seed, shuffle=shuffled)
            found[split] = Batches(rows, order, ImageMaker(images))
    return found


class ImageMaker:
    """Images, normalised, and their labels."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __call__(self, rows: Sequence[Any]) -> Labelled:
        pixels = torch.stack([self.images.normalise(row.image) for row in rows])
        return Labelled(pixels, torch.tensor([row.label for row in rows]))
