"""Images with captions put into batches, and what is changed at random in them."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from regard.data.batches import Batches
from regard.data.counter_rng import AUGMENT, philox
from regard.data.order import Order
from regard.data.rows import Rows
from regard.modalities.images.augmentation import BatchAugmentation, CaptionedAugmentation
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches
from regard.modalities.sources import source_of
from regard.modalities.text.lengths import share_beyond, token_lengths
from regard.modalities.text.pairs import Pairs

from .processor import CaptionMaker

UNCHANGED = CaptionedAugmentation()


def caption_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """So many images a batch, with captions of like length. Train, which is shuffled, is changed by chance where that
    is asked for; all else as it is."""
    data, captions, cut = plan.data, reading.processor, 0.0
    make = CaptionMaker(captions.images, captions.text, data.longest, reading.symbols)
    change = None if data.augment == UNCHANGED else BatchAugmentation(captions.images, data.augment)
    splits: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        every = token_lengths(rows, captions.text, source_of(data).texts(rows))
        cut = share_beyond(every, data.longest) if split == "train" else cut
        lengths = np.minimum(every, data.longest)
        order = Order(len(rows), lengths, rows=data.batch, seed=plan.seed, shuffle=split == "train")
        splits[split] = Batches(rows, order, make)
        if change is not None and order.shuffle:
            splits[split] = ChangedCaptions(rows, order, make, change, plan.seed)
    return SplitBatches(splits, longest=data.longest, cut=cut)


def scene_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """So many images a batch, whatever the length of what is said of them."""
    data, captions = plan.data, reading.processor
    make = CaptionMaker(captions.images, captions.text, data.longest, reading.symbols)
    splits: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows=data.batch, seed=plan.seed, shuffle=split == "train")
        splits[split] = Batches(rows, order, make)
    return SplitBatches(splits, longest=data.longest)


class ChangedCaptions(Batches):
    """Captions, each with its image as chance has changed it; one image is read after the other is made small."""

    def __init__(self, rows: Rows, order: Order, make: CaptionMaker, change: BatchAugmentation, seed: int) -> None:
        self.source, self.order = rows, order
        self.together, self.change, self.seed = make.together, change, seed

    def collate(self, rows: Sequence[int], step: int) -> Pairs:
        numbers = [philox(AUGMENT, self.seed, step, int(row)) for row in rows]
        captions: list[str] = []

        def read() -> Iterator[Tensor]:
            for row in rows:
                one = self.source[int(row)]
                captions.append(one.caption)
                yield one.image

        return self.together(self.change(read(), numbers), captions)
