"""Images with captions, for a run: in batches, and what is changed at random in them."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from regard.data.batches import Batches
from regard.data.captioned import CaptionedImages
from regard.data.captions import CaptionMaker
from regard.data.draws import AUGMENT, chance
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
        return ChangedCaptions(rows, order, make, Changing(images, data.augment), seed)
    return Batches(rows, order, make)


def without_images(rows: Rows) -> Rows:
    """Rows of the same texts, for which no image is decoded."""
    return rows.texts() if isinstance(rows, CaptionedImages) else rows


class ChangedCaptions(Batches):
    """Captions, each with its image as chance has changed it; one image is read after the other is made small."""

    def __init__(self, rows: Rows, order: Order, make: CaptionMaker, change: Changing, seed: int) -> None:
        self.source, self.order = rows, order
        self.together, self.change, self.seed = make.together, change, seed

    def collate(self, rows: Sequence[int], step: int) -> Pairs:
        numbers = [chance(AUGMENT, self.seed, step, int(row)) for row in rows]
        captions: list[str] = []

        def read() -> Iterator[Tensor]:
            for row in rows:
                one = self.source[int(row)]
                captions.append(one.caption)
                yield one.image

        return self.together(self.change(read(), numbers), captions)
