"""What images are like, by the headers of some of them: their usual size, and whether they have colours. The size that
a new model reads follows from that unless a run file sets it."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np
from PIL import Image

from regard.data.locations import DataFolder, DataPlace

from .pixels import FORMATS, is_grey, upright_size
from .processor import Images

SURVEYED = 64  # images
SIDES = (8, 16, 28, 32, 48, 64, 96, 128)  # of images that a new model reads; more is asked for
GRIDS = (7, 32)  # the fewest and the most patches in a row that a model is taken to have been made for
USUAL_GRID = 8
SMALL = 2  # times that a side may become shorter before it is told


@dataclass(frozen=True)
class ImageSurvey:
    width: int
    height: int
    grey: bool  # none of them has colours
    mixed: bool  # some have

    def words(self) -> str:
        colours = "grey" if self.grey else "colour and grey" if self.mixed else "colour"
        return f"{self.width} x {self.height}, {colours}"

    def side(self) -> int:
        """The largest of some usual ones that is no larger than the shorter side."""
        return max((side for side in SIDES if side <= min(self.width, self.height)), default=SIDES[0])

    @property
    def channels(self) -> int:
        return 1 if self.grey else 3


def survey_of(sizes: Sequence[tuple[int, int]], grey: Sequence[bool]) -> ImageSurvey | None:
    if not sizes:
        return None
    widths, heights = zip(*sizes, strict=True)
    return ImageSurvey(median_low(widths), median_low(heights), all(grey), any(grey) and not all(grey))


def survey_place(place: DataPlace, names: Sequence[str]) -> ImageSurvey | None:
    """Of some of the images of a folder or an archive, evenly taken; what cannot be read is left out."""
    picked = sorted(set(np.linspace(0, len(names) - 1, SURVEYED).astype(int).tolist())) if names else []
    found = [one for i in picked for one in header_of(place, names[i])]
    return survey_of([size for size, _ in found], [grey for _, grey in found])


def header_of(place: DataPlace, name: str) -> Iterator[tuple[tuple[int, int], bool]]:
    """Nothing where it cannot be read: whoever reads it all says why."""
    try:
        source = place.path / name if isinstance(place, DataFolder) else io.BytesIO(place.read(name))
        with Image.open(source, formats=FORMATS) as image:
            yield upright_size(image), is_grey(image)
    except Exception:  # a decoder may raise anything
        return


def patch_for(side: int, own: int) -> int:
    """The side of the patches of an image: the model's own where they fit, else such that there are about as many as
    usual."""
    if side % own == 0 and GRIDS[0] <= side // own <= GRIDS[1]:
        return own
    return min((patch for patch in range(1, side + 1) if side % patch == 0), key=lambda x: abs(side / x - USUAL_GRID))


def preparation_notes(found: ImageSurvey | None, images: Images) -> list[str]:
    """What is lost of images before a model sees them."""
    if found is None:
        return []
    told, shorter = [], min(found.width, found.height)
    if images.size is not None and shorter >= SMALL * images.size:
        told.append(
            f"images of {found.width} x {found.height} pixels are made small: the model reads {images.size} x "
            f"{images.size}; set model.image (or data.size) if details matter"
        )
    if images.channels == 1 and not found.grey:
        told.append("images in colour are made grey: the model has one channel; set model.channels = 3 to keep colours")
    return told


def prepared_words(images: Images) -> str:
    size = "their own size" if images.size is None else f"{images.size} x {images.size}"
    return f"{size}, {'grey' if images.channels == 1 else 'colour'}"
