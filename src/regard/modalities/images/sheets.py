"""Many small images of one size as tiles of a large one, a contact sheet, row by row from the top left.

A lossless sheet takes less room than as many files, and is read at once.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.faults import DamagedError, Fault, printable
from regard.data.locations import DataFolder
from regard.errors import InputError

from .pixels import decoded
from .processor import Images, LabelledImage


class Sheet:
    """Rows: the tiles of one sheet, (rows, height, columns, width) or with colours after that.

    A tile whose number has no name is a fault; its line is the tile's number, from 1.
    """

    lengths = None  # all tiles are of one size

    def __init__(
        self, path: Path, pixels: NDArray[np.uint8], targets: NDArray[np.int64], labels: Sequence[str], images: Images
    ) -> None:
        self.path, self.pixels, self.targets = path, pixels, targets
        self.labels, self.images = tuple(labels), images
        known = (targets >= 0) & (targets < len(self.labels))
        self.numbers = np.flatnonzero(known)
        self.row_labels = targets[self.numbers]
        self.faults = [
            Fault(str(path), i + 1, f"label {targets[i]} is out of range for {len(self.labels)} labels")
            for i in np.flatnonzero(~known).tolist()
        ]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> LabelledImage:
        if not 0 <= i < len(self):
            raise IndexError(f"tile index {i} is out of range for {len(self)} tiles")
        tile = int(self.numbers[i])
        row, column = divmod(tile, self.pixels.shape[2])
        return LabelledImage(self.images.prepare_pixels(self.pixels[row, :, column]), int(self.targets[tile]))

    def where(self, i: int) -> str:
        return f"{self.path}:{int(self.numbers[i]) + 1}"


def open_sheet(
    path: Path, size: tuple[int, int], targets: Path | int, images: Images, labels: Sequence[str] | None = None
) -> Sheet:
    """Open an image of tiles. ``size`` is the height and width of a tile. ``targets`` is a .npy file with the label
    index of each tile, or the number of consecutive tiles with the same label. The last row may be incomplete."""
    path = Path(path)
    pixels = cut_sheet(path, size)
    rows, columns = pixels.shape[0], pixels.shape[2]
    if isinstance(targets, int):
        numbers = np.arange(rows * columns) // max(targets, 1)
    else:
        numbers = read_sheet_labels(Path(targets))
    if not (rows - 1) * columns < len(numbers) <= rows * columns:
        raise InputError(
            "the numbers of tiles and labels differ",
            where=f"{path} and {targets}",
            got=f"{len(numbers)} labels",
            expected=f"{rows * columns}, or fewer if the last row of {columns} is not full",
        )
    names = map(str, range(int(numbers.max()) + 1)) if labels is None else labels
    return Sheet(path, pixels, numbers, tuple(names), images)


def cut_sheet(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    try:
        pixels = np.asarray(decoded(DataFolder(path.parent).read(path.name)))
    except DamagedError as reason:
        raise InputError("the tile sheet cannot be read", where=str(path), got=str(reason)) from None
    (high, wide), (height, width) = pixels.shape[:2], size
    if min(size) < 1 or high % height or wide % width:
        raise InputError(
            "the sheet size is not a multiple of the tile size",
            where=str(path),
            got=f"{wide} x {high} pixels",
            expected=f"a width that is a multiple of {width} and a height that is a multiple of {height}",
        )
    return pixels.reshape(high // height, height, wide // width, width, *pixels.shape[2:])


def read_sheet_labels(path: Path) -> NDArray[np.int64]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: its header cannot make it allocate
    except Exception as error:  # a hostile header raises more than ValueError
        raise InputError(f"{path.name} cannot be read", where=str(path), got=printable(str(error)[:200])) from None
    if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        got = f"shape {found.shape}, {found.dtype}" if isinstance(found, np.ndarray) else "several arrays"
        raise InputError(
            f"{path.name} does not contain labels",
            where=str(path),
            got=got,
            expected="a one-dimensional array of integers",
        )
    return found.astype(np.int64)
