"""Images with labels, in files."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from regard.data.files import find_file
from regard.data.fingerprints import fingerprint
from regard.data.locations import DataFolder, open_place
from regard.data.rows import Rows
from regard.errors import InputError
from regard.modalities.images.augmentation import Augment
from regard.modalities.images.batching import PreparedRows, not_batches
from regard.modalities.images.idx import find_idx, open_idx, read_idx
from regard.modalities.images.medium import SUFFIXES
from regard.modalities.images.preparation import (
    AUGMENT_HELP,
    DEVIATION_HELP,
    FILES_SIZE_HELP,
    FIT_HELP,
    FOLLOW,
    HALF,
    IMAGE_PREPARATION,
    MEAN_HELP,
    example_size,
    follows_images,
    image_settings,
    source_processor,
)
from regard.modalities.images.processor import Images, open_images
from regard.modalities.images.sheets import open_sheet
from regard.modalities.images.survey import (
    ImageSurvey,
    preparation_notes,
    prepared_words,
    survey_of,
    survey_place,
)
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS, check_disjoint, check_splits
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting


@dataclass(frozen=True)
class ImageFiles:
    """Images with labels: a folder with one folder per label, a label table or idx files; or a sheet of tiles."""

    kind: Literal["images"] = "images"
    train: str = required_setting(
        "training data: a folder, or an image of tiles with its labels in NAME_labels.npy beside it"
    )
    held_out: str = setting(
        "", "validation data in the same form, evaluated during training; empty: a fraction of train"
    )
    test: str = setting(
        "",
        "test data in the same form for `regard evaluate --split test`; empty: none, or the test split of idx files",
    )
    labels: tuple[str, ...] = setting((), "names of the labels, if the data has only numbers")
    tile: int = setting(0, "side of a tile in pixels, if train is an image of tiles")
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of unreadable images; above it the run does not start")
    batch: int = setting(64, "batch size in images")
    size: int | Literal["auto"] = setting(0, FILES_SIZE_HELP)
    fit: Literal["stretch", "crop"] = setting("stretch", FIT_HELP)
    mean: tuple[float, ...] = setting(HALF, MEAN_HELP)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION_HELP)
    augment: Augment = setting(Augment(), AUGMENT_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + (
            [] if self.train or self.train is None else ["train is empty: expected a folder"]
        )
        wrong += not_at_least(0, self, "tile", *(["size"] if self.size != FOLLOW else [])) + not_batches(
            self.deviation, self.batch, self.augment
        )
        if twice := [name for name, count in Counter(self.labels or ()).items() if count > 1]:
            wrong += [f"duplicate labels: {', '.join(map(repr, twice[:3]))}"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF and self.fit == "stretch"


def open_image_files(plan: RunPlan) -> OpenedData:
    """What is cut out of images at random is cut out of the whole of them."""
    data, found = plan.data, survey(plan.data, find_file(plan.data.train, plan.base))
    asked = 0 if data.size == FOLLOW else data.size
    images = image_settings(plan, asked, found if follows_images(plan) else None)
    splits, names = image_rows(plan, images)
    check_disjoint(splits)
    opened = check_splits(splits, data.bad, data.share, plan.seed, images, names)
    if found is not None:
        facts = {"images": f"{found.words()}; read as {prepared_words(images)}"}
        opened = replace(opened, notes=(*opened.notes, *preparation_notes(found, images)), facts=facts)
    if data.augment.area < 1 and not data.held_out:
        opened.splits["held_out"] = PreparedRows(opened.splits["held_out"], images)
    return opened


def survey(data: ImageFiles, path: Path) -> ImageSurvey | None:
    """What the training images are like; None where none can be read."""
    if path.is_file() and path.suffix.lower() != ".zip":
        return survey_sheet(path, data.tile)
    if is_idx(path):
        pixels = read_idx(find_idx(path, "train", "images", 3))
        return survey_of([(pixels.shape[-1], pixels.shape[1])], [True])
    place = open_place(path)
    return survey_place(place, [name for name in place.names() if name.lower().endswith(SUFFIXES)])


def survey_sheet(path: Path, tile: int) -> ImageSurvey | None:
    found = survey_place(DataFolder(path.parent), [path.name])
    return None if found is None else replace(found, width=tile, height=tile)


def image_rows(plan: RunPlan, images: Images) -> tuple[dict[str, Rows], tuple[str, ...]]:
    """The rows of each split that there are files for, and the names of the labels."""
    data, folder = plan.data, find_file(plan.data.train, plan.base)
    train = open_split(data, folder, "train", source_processor(images, data.augment.area), data.labels or None)
    if len(train.labels) < 2 and not data.labels:
        raise InputError(
            "all images have the same label",
            where=str(folder),
            got=", ".join(map(repr, train.labels)) or "none",
            expected="at least two labels: one folder for each, or a label table",
        )
    splits: dict[str, Rows] = {"train": train}
    for split, name in (("held_out", data.held_out), ("test", data.test)):
        if name:
            splits[split] = open_split(data, find_file(name, plan.base), split, images, train.labels)
    if "test" not in splits and is_idx(folder) and any(x.startswith(("test", "t10k")) for x in os.listdir(folder)):
        splits["test"] = open_idx(folder, "test", images, train.labels)
    return splits, tuple(train.labels)


def open_split(data: ImageFiles, path: Path, split: str, images: Images, labels: Sequence[str] | None) -> Any:
    """A sheet of tiles, a folder of idx files, or a folder or archive of images."""
    if path.is_file() and path.suffix.lower() != ".zip":
        if not data.tile:
            fix = "set data.tile to the side of a tile in pixels, or give a folder"
            raise InputError("a single file needs data.tile, the tile size of a sheet", where=str(path), fix=fix)
        return open_sheet(path, (data.tile, data.tile), targets_of(path), images, labels)
    if is_idx(path):
        return open_idx(path, split, images, labels)
    return open_images(path, images, labels, "data.labels" if data.labels else "the training data")


def is_idx(folder: Path) -> bool:
    return folder.is_dir() and any("-ubyte" in name for name in os.listdir(folder))


def targets_of(sheet: Path) -> Path:
    """The labels of a sheet's tiles stand beside it: of train.webp, in train_labels.npy."""
    return sheet.with_name(f"{sheet.stem}_labels.npy")


def labels_of_sheets(data: ImageFiles) -> list[tuple[str, str]]:
    """The files of labels that stand beside sheets of tiles."""
    sheets = [getattr(data, split) for split in SPLITS] if data.tile else []
    files = [targets_of(Path(sheet)) for sheet in sheets if sheet]
    return [(str(file), fingerprint(file)) for file in files if file.is_file()]


def example(folder: Path) -> dict[str, Any]:
    for i in range(12):
        name, colour = ("dark", i) if i % 2 else ("light", 240 + i)
        (folder / "images" / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (colour, colour, 128)).save(folder / "images" / name / f"{i}.png")
    return {"train": "images", "share": 0.25, "batch": 4}


KIND = DataKind(
    ImageFiles,
    ("image",),
    open_image_files,
    IMAGE_PREPARATION,
    paths=SPLITS,
    more_files=labels_of_sheets,
    example=example,
    example_for=example_size,
    store="regard.modalities.images.storing:store_images",
)
