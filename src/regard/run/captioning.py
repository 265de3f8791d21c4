"""Images with captions, for a run: in batches, and what is changed at random in them."""

from collections.abc import Sequence

import numpy as np

from regard.data.batches import Batches, Drawn
from regard.data.captioned import CaptionedImages
from regard.data.captions import CaptionMaker, Described
from regard.data.images import Images
from regard.data.order import Order
from regard.data.pairs import Pairs
from regard.data.rows import Rows

from .augmentation import Change, Changing
from .inputs import CaptionFiles, DrawnScenes

UNCHANGED = Change()


def caption_batches(
    data: CaptionFiles | DrawnScenes, rows: Rows, order: Order, make: CaptionMaker, images: Images, seed: int
) -> Batches:
    """Train, which is shuffled, changed by chance where that is asked for; all else as it is."""
    if isinstance(data, CaptionFiles) and order.shuffle and data.augment != UNCHANGED:
        return Drawn(rows, order, ChangedMaker(make, Changing(images, data.augment)), seed)
    return Batches(rows, order, make)


def without_images(rows: Rows) -> Rows:
    """Rows of the same texts, for which no image is decoded."""
    return rows.texts() if isinstance(rows, CaptionedImages) else rows


class ChangedMaker:
    """Captions, each with its image as chance has changed it."""

    def __init__(self, make: CaptionMaker, change: Changing) -> None:
        self.make, self.change = make, change

    def __call__(self, rows: Sequence[Described], numbers: Sequence[np.random.Philox]) -> Pairs:
        pixels = self.change([row.image for row in rows], numbers)
        return self.make.together(pixels, [row.caption for row in rows])
