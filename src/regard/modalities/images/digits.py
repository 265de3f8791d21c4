"""The 1,797 handwritten digits that scikit-learn carries, 8 x 8 pixels of 17 shades (Alpaydin and Kaynak, 1998,
https://doi.org/10.24432/C50P49): images for a machine that has no others.

Only the file is read, the package is not imported. A line has 64 shades, from 0, white paper, to 16, and the digit.
"""

import gzip
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.faults import Fault
from regard.errors import InputError

from .processor import Images, LabelledImage

SIDE, SHADES, COUNT = 8, 16, 1797
TEST = 297  # the last ones
LABELS = tuple(map(str, range(10)))


class Digits:
    """Rows: ``first`` to before ``last`` of the file."""

    lengths = None  # all images are of one size
    labels = LABELS

    def __init__(self, images: Images, first: int, last: int) -> None:
        table = read_digits()[first:last]
        self.pixels = np.round(table[:, :-1].reshape(-1, SIDE, SIDE) * (255 / SHADES)).astype(np.uint8)
        self.targets, self.images, self.first = table[:, -1], images, first
        self.faults: tuple[Fault, ...] = ()

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int) -> LabelledImage:
        if not 0 <= i < len(self):
            raise IndexError(f"digit index {i} is out of range for {len(self)} digits")
        return LabelledImage(self.images.prepare_pixels(self.pixels[i]), int(self.targets[i]))

    def where(self, i: int) -> str:
        return f"line {self.first + i + 1} of scikit-learn's digits.csv.gz"


def read_digits() -> NDArray[np.int64]:
    """-> (1797, 65): shades, and the digit"""
    path = digits_file()
    try:
        text = gzip.decompress(path.read_bytes()).decode("ascii")
        found = np.array([line.split(",") for line in text.splitlines()], np.int64)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise InputError("scikit-learn's digits file cannot be read", where=str(path), got=str(error)[:200]) from None
    whole = found.shape == (COUNT, SIDE * SIDE + 1) and found.min() >= 0 and found[:, :-1].max() <= SHADES
    if not whole or found[:, -1].max() >= len(LABELS):
        raise InputError(
            "not scikit-learn's digits file", where=str(path), got=f"{found.shape}", expected="1797 lines of 65 numbers"
        )
    return found


def digits_file() -> Path:
    spec = find_spec("sklearn")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        if (path := Path(place) / "datasets" / "data" / "digits.csv.gz").is_file():
            return path
    raise InputError(
        "the digits dataset is part of scikit-learn, which is not installed",
        got=", ".join(places) or "no package named sklearn",
        fix="pip install scikit-learn",
    )
