"""Images with captions: a table, each line of which has the path of an image and a sentence that says what is on it.

    image,caption
    dogs/1.jpg,a dog runs through the snow
    dogs/1.jpg,"a brown dog, in winter"
    cats/7.jpg,a cat sleeps

Paths begin at a folder, or in a zip archive. An image may have several captions, a line each. A line whose image cannot
be read is left out, and so is one whose image is learned from, where others are to be measured on.
"""

from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.faults import Fault, fault_at, printable
from regard.data.locations import DataPlace
from regard.data.rows import IntegerArray, Rows, split_indices
from regard.modalities.images.checks import check_images
from regard.modalities.images.processor import Images

from .processor import Described

LEARNED = "the image is also in data.train, and evaluation needs other images"


class CaptionedImages:
    """Rows: captions, each with its image, which is read when asked for. ``kept`` are the lines of the table that are
    rows, and ``names`` the paths of their images."""

    def __init__(
        self,
        table: Rows,
        place: DataPlace,
        kept: IntegerArray,
        names: Sequence[str],
        images: Images,
        faults: Sequence[Fault] = (),
    ) -> None:
        assert table.lengths is not None
        self.table, self.place, self.kept, self.names = table, place, kept, tuple(names)
        self.images, self.faults = images, faults
        self.lengths: IntegerArray = table.lengths[kept, 1:]  # of the captions, in bytes

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, i: int) -> Described:
        caption = self.caption(i)
        return Described(self.images.take(self.place, self.names[i]), caption)

    def caption(self, i: int) -> str:
        if not 0 <= i < len(self):
            raise IndexError(f"caption index {i} is out of range for {len(self)} captions")
        return str(self.table[int(self.kept[i])][1]).strip()

    def where(self, i: int) -> str:
        return self.table.where(int(self.kept[i]))

    def files(self) -> set[Path]:
        return {self.place.path / name for name in self.names}

    def by_image(self) -> dict[str, list[int]]:
        """The rows of each image, in their order."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self.names):
            found.setdefault(name, []).append(i)
        return found

    def some(self, rows: IntegerArray, images: Images, faults: Sequence[Fault] = ()) -> "CaptionedImages":
        """Some of the rows, under new numbers, their images prepared by ``images``."""
        names = [self.names[i] for i in rows.tolist()]
        return CaptionedImages(self.table, self.place, self.kept[rows], names, images, faults)


def open_captions(table: Rows, place: DataPlace, images: Images, learned: Collection[Path] = ()) -> CaptionedImages:
    """Rows of a path and a caption, with the images that they name. Each image is decoded once to see that it can be;
    ``learned`` are files that must not be among them."""
    named = image_names(table)
    different = list(dict.fromkeys(named))
    findings = zip(different, check_images(place, different), strict=True)
    reasons = {name: finding.reason or (LEARNED if place.path / name in learned else "") for name, finding in findings}
    kept = np.array([i for i, name in enumerate(named) if not reasons[name]], np.int64)
    left = [
        fault_at(table.where(i), f"{printable(name)}: {reasons[name]}") for i, name in enumerate(named) if reasons[name]
    ]
    faults = [*table.faults, *left] if left else table.faults
    return CaptionedImages(table, place, kept, [named[i] for i in kept.tolist()], images, faults)


def image_names(table: Rows) -> list[str]:
    """The image of each row, by one name however its path is written: ./a//1.png is a/1.png."""
    return [str(PurePosixPath(table[i][0].strip())) for i in range(len(table))]


def hold_out_images(
    rows: CaptionedImages, share: float, seed: int, images: Images
) -> tuple[CaptionedImages, CaptionedImages]:
    """A share of the images, with all of their captions, prepared by ``images`` to validate on; and the others to train
    on. The faults stay with these."""
    groups = list(rows.by_image().values())
    parts = [
        np.sort(np.array([row for i in some.tolist() for row in groups[i]], np.int64))
        for some in split_indices(len(groups), share, seed, "images")
    ]
    return rows.some(parts[0], rows.images, rows.faults), rows.some(parts[1], images)
