"""Images and labels in idx files, the format of MNIST (LeCun et al., 1998): a header, then the bare numbers.

    0 0 type axes, then the length of each axis as 4 bytes, the highest first

The numbers stay in the file until they are asked for.
"""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.archives import unpacked_file
from regard.data.faults import Fault
from regard.errors import InputError

from .processor import Images, LabelledImage

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
AXES = 32  # no honest file has more
OTHER_NAMES = {"test": "t10k"}  # what MNIST calls it


def read_idx(path: Path) -> NDArray[Any]:
    """Read any idx file, memory-mapped: nothing is allocated before the header is checked against the file size."""
    path = Path(path)
    plain = unpacked_file(path)
    try:
        with open(plain, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(4)
            axes = file.read(4 * start[3]) if len(start) == 4 else b""
    except OSError as error:
        raise InputError(f"{path.name} cannot be read", where=str(path), got=error.strerror or str(error)) from None
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not 1 <= start[3] <= AXES:
        got, expected = start.hex(" ") or "no bytes", "00 00, a data type from 08 to 0e, the number of dimensions"
        raise InputError(f"{path.name} is not an idx file", where=str(path), got=got, expected=expected)
    header = 4 + 4 * start[3]
    shape = tuple(int.from_bytes(axes[i : i + 4], "big") for i in range(0, len(axes), 4))
    kind = np.dtype(TYPES[start[2]])
    needed = header + kind.itemsize * math.prod(shape)
    if size != needed:
        raise InputError(
            f"the length of {path.name} does not match its header",
            where=str(path),
            got=f"{size} bytes",
            expected=f"{needed} bytes: a header of {header}, then {shown_shape(shape)} {kind.itemsize}-byte values",
            fix="download the file again: it is truncated or corrupt",
        )
    if 0 in shape:
        raise InputError(f"{path.name} is empty: one of its dimensions is 0", where=str(path), got=shown_shape(shape))
    return np.memmap(plain, kind, "r", header, shape)


def shown_shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


class IdxImages:
    """Rows: one file of images, (n, h, w), and one of labels, (n,), both of bytes.

    Without ``labels`` their names are the numbers from 0 to the largest there is. A row whose number has no name is a
    fault; its line is the row's number, from 1.
    """

    lengths = None  # all images are of one size

    def __init__(self, pixels: Path, targets: Path, images: Images, labels: Sequence[str] | None = None) -> None:
        self.path, self.pixels = pixels, of_axes(Path(pixels), 3)
        self.targets = np.array(of_axes(Path(targets), 1))
        if len(self.pixels) != len(self.targets):
            raise InputError(
                "the numbers of images and labels differ",
                where=f"{pixels} and {targets}",
                got=f"{len(self.pixels)} images and {len(self.targets)} labels",
                fix="check that the files belong together",
            )
        self.images = images
        self.labels = tuple(map(str, range(int(self.targets.max()) + 1)) if labels is None else labels)
        known = self.targets < len(self.labels)
        self.numbers = np.flatnonzero(known)
        self.row_labels = self.targets[self.numbers].astype(np.int64)
        self.faults = [
            Fault(str(targets), i + 1, f"label {self.targets[i]} is out of range for {len(self.labels)} labels")
            for i in np.flatnonzero(~known).tolist()
        ]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> LabelledImage:
        if not 0 <= i < len(self):
            raise IndexError(f"image index {i} is out of range for {len(self)} images")
        row = int(self.numbers[i])
        return LabelledImage(self.images.prepare_pixels(self.pixels[row]), int(self.targets[row]))

    def where(self, i: int) -> str:
        return f"{self.path}:{int(self.numbers[i]) + 1}"


def of_axes(path: Path, axes: int) -> NDArray[np.uint8]:
    numbers = read_idx(path)
    if numbers.ndim != axes or numbers.dtype != np.uint8:
        raise InputError(
            f"{path.name} does not contain {'images' if axes == 3 else 'labels'}",
            where=str(path),
            got=f"{numbers.ndim}-dimensional {numbers.dtype.name}",
            expected=f"{axes}-dimensional uint8",
        )
    return numbers


def open_idx(folder: Path, split: str, images: Images, labels: Sequence[str] | None = None) -> IdxImages:
    """Open the files of a split in a folder, such as "train": train-images-idx3-ubyte.gz and
    train-labels-idx1-ubyte.gz. Pass the ``labels`` of the training data to read other data for the same net."""
    return IdxImages(find_idx(folder, split, "images", 3), find_idx(folder, split, "labels", 1), images, labels)


def find_idx(folder: Path, split: str, what: str, axes: int) -> Path:
    names = sorted(os.listdir(folder)) if Path(folder).is_dir() else []
    starts = "|".join(re.escape(start) for start in (split, OTHER_NAMES.get(split, split)))
    form = re.compile(rf"({starts})[^-.]*-{what}[-.]idx{axes}-ubyte(\.gz|\.xz)?")
    found = [name for name in names if form.fullmatch(name)]
    if len(found) != 1:
        raise InputError(
            f"{'no' if not found else 'more than one'} idx file of {what} found for the split {split!r}",
            where=str(folder),
            got=", ".join(found or names[:10]) or "no files",
            expected=f"one file such as {split}-{what}-idx{axes}-ubyte, optionally compressed (.gz, .xz)",
        )
    return Path(folder) / found[0]
