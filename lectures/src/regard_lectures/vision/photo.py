"""A photograph that every machine has which draws: matplotlib brings it along (Grace Hopper, public domain)."""

from pathlib import Path

import numpy
from matplotlib import get_data_path
from PIL import Image
from torch import Tensor, from_numpy

CORNER, SIDE = (86, 10), 410  # of the square with her face, in pixels of the photograph


def portrait(side: int) -> Tensor:
    """In shades of grey.  -> (side, side) from 0, black, to 1"""
    left, top = CORNER
    with Image.open(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg") as image:
        grey = image.convert("L").crop((left, top, left + SIDE, top + SIDE))
    small = numpy.asarray(grey.resize((side, side), Image.Resampling.BOX), dtype=numpy.float32)
    return from_numpy(small.copy()) / 255
