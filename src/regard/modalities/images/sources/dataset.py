"""Images with labels from a torch dataset that is given in Python: they stay where they are.

A run cannot write such data down, so the dataset is given again to resume or evaluate it, and must be the same: its
length and the SHA-256 of its rows stand in the run file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from regard.data.faults import Fault
from regard.data.given_datasets import given_dataset
from regard.data.given_tables import described
from regard.data.rows import IntegerArray, Rows
from regard.errors import InputError
from regard.modalities.images.augmentation import Augment
from regard.modalities.images.batching import PreparedRows, not_batches
from regard.modalities.images.preparation import (
    AUGMENT_HELP,
    DEVIATION_HELP,
    FIT_HELP,
    HALF,
    MEAN_HELP,
    SIZE_HELP,
    image_settings,
    source_processor,
)
from regard.modalities.images.processor import Images, LabelledImage
from regard.modalities.images.storing import pixels_of
from regard.modalities.images.survey import SURVEYED, patch_for, survey_of
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS, check_splits
from regard.nn.config import not_above_zero, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

PATCH = 16  # of the model that is trained unless another is named
HASHED = 2000  # rows of a split that are read for its digest, evenly spread


@dataclass(frozen=True)
class ImageDataset:
    """Images with labels from a torch dataset given in Python."""

    kind: Literal["dataset"] = "dataset"
    train: str = required_setting("length and SHA-256 of the training dataset, as regard.train writes them")
    held_out: str = setting("", "the same of the validation dataset; empty: a fraction of train")
    test: str = setting("", "the same of the test dataset")
    labels: tuple[str, ...] = required_setting("names of the labels")
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    batch: int = setting(64, "batch size in images")
    size: int = setting(0, SIZE_HELP)
    fit: Literal["stretch", "crop"] = setting("stretch", FIT_HELP)
    mean: tuple[float, ...] = setting(HALF, MEAN_HELP)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION_HELP)
    augment: Augment = setting(Augment(), AUGMENT_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + not_batches(self.deviation, self.batch, self.augment)
        wrong += [] if self.labels is None or len(self.labels) > 1 else ["labels must have at least two names"]
        refuse(wrong, not_shares(self, "share"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF and self.fit == "stretch"


class DatasetImages:
    """Rows of a dataset: an image and a label each."""

    lengths: IntegerArray | None = None
    faults: Sequence[Fault] = ()

    def __init__(self, dataset: Any, split: str, images: Images, labels: Sequence[str]) -> None:
        self.dataset, self.split, self.images, self.labels = dataset, split, images, tuple(labels)
        self.numbers = {str(i): i for i in range(len(self.labels))} | {name: i for i, name in enumerate(self.labels)}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> LabelledImage:
        if not 0 <= i < len(self):
            raise IndexError(f"image index {i} is out of range for {len(self)} images")
        pixels, label = labelled_row(self.dataset, i, self.where(i))
        if label not in self.numbers:
            raise InputError(
                "a label of the dataset has no name",
                where=self.where(i),
                got=repr(label),
                expected=", ".join(self.labels[:20]),
            )
        return LabelledImage(self.images.prepare_pixels(pixels), self.numbers[label])

    def where(self, i: int) -> str:
        return f"dataset of {self.split}, row {i + 1}"


def labelled_row(dataset: Any, i: int, where: str) -> tuple[Any, str]:
    """Pixels and the name of the label."""
    row = dataset[i]
    if not isinstance(row, tuple | list) or len(row) != 2:
        raise InputError("a row of the dataset is no image and label", where=where, got=described(row))
    image, label = row
    image = np.asarray(image) if hasattr(image, "convert") else image
    return pixels_of(image, where), label_of(label)


def label_of(label: Any) -> str:
    value = label.item() if hasattr(label, "item") else label
    return str(value)


def digest_of(dataset: Any, split: str) -> str:
    """Its length, and the SHA-256 of its rows; of a long one, of some of them."""
    found, count = hashlib.sha256(), len(dataset)
    for i in dict.fromkeys(torch.linspace(0, count - 1, min(count, HASHED)).long().tolist()):
        pixels, label = labelled_row(dataset, i, f"dataset of {split}, row {i + 1}")
        found.update(repr((i, pixels.shape, label)).encode() + pixels.tobytes())
    return f"{count} rows, sha256 {found.hexdigest()}"


def labels_in(dataset: Any) -> tuple[str, ...]:
    """Their names, where the dataset tells them (``classes``, as those of torchvision), or else all that occur."""
    names = getattr(dataset, "classes", None)
    if isinstance(names, list | tuple) and names:
        return tuple(map(str, names))
    found = {labelled_row(dataset, i, f"dataset, row {i + 1}")[1] for i in range(len(dataset))}
    return tuple(sorted(found, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)))


def open_datasets(plan: RunPlan) -> OpenedData:
    data, images = plan.data, image_settings(plan, plan.data.size)
    splits: dict[str, Rows] = {}
    for split in (split for split in SPLITS if getattr(data, split)):
        dataset = given_dataset(split)
        if (found := digest_of(dataset, split)) != getattr(data, split):
            raise InputError(
                "the dataset is not the one that the run began with",
                where=f"data.{split}",
                got=found,
                expected=getattr(data, split),
                fix="give the same rows in the same order; random changes belong into data.augment",
            )
        prepared = source_processor(images, data.augment.area) if split == "train" else images
        splits[split] = DatasetImages(dataset, split, prepared, data.labels)
    opened = check_splits(splits, 0.0, data.share, plan.seed, images, tuple(data.labels))
    if data.augment.area < 1 and not data.held_out:
        opened.splits["held_out"] = PreparedRows(opened.splits["held_out"], images)
    return opened


def describe_datasets(datasets: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The [data] table of datasets, and what follows from their images of the config of a new model."""
    train = datasets["train"]
    if not len(train):
        raise InputError("the dataset is empty", where="data.train")
    places = range(0, len(train), len(train) // SURVEYED or 1)
    shapes = [labelled_row(train, i, f"dataset of train, row {i + 1}")[0].shape for i in places]
    found = survey_of([(shape[1], shape[0]) for shape in shapes], [len(shape) == 2 for shape in shapes])
    told = {split: digest_of(dataset, split) for split, dataset in datasets.items()}
    model = {} if found is None else {"image": found.side(), "channels": found.channels}
    patch = {} if found is None else {"patch": patch_for(found.side(), PATCH)}
    return {**told, "labels": list(labels_in(train))}, {**model, **patch}


KIND = DataKind(
    ImageDataset, ("image",), open_datasets, describe="regard.modalities.images.sources.dataset:describe_datasets"
)
