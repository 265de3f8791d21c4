"""Find the caption of each image, and the image of each caption, among those of a batch."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.data.batches import Batches
from regard.data.order import Order
from regard.modalities.images.augmentation import BatchAugmentation
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.sources import source_of
from regard.modalities.text.lengths import share_beyond, token_lengths, tokens_to_read
from regard.modalities.text.vocabulary import with_frame
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train

from .batching import UNCHANGED, ChangedCaptions
from .matching import Match, MatchMaker
from .sources.files import CaptionFiles


@dataclass(frozen=True)
class Matching:
    """Find the caption of each image, and the image of each caption, among those of a batch."""

    kind: Literal["match"] = "match"


def caption_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """So many images a batch, with captions of like length; train, which is shuffled, is changed by chance where that
    is asked for."""
    data, captions, cut = plan.data, reading.processor, 0.0
    longest = tokens_to_read(data.longest, reading.length)
    make: Any = MatchMaker(captions, longest)
    change = BatchAugmentation(captions.images, data.augment)
    splits: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        every = token_lengths(rows, make.text, source_of(data).texts(rows))
        cut = share_beyond(every, longest) if split == "train" else cut
        order = Order(len(rows), np.minimum(every, longest), rows=data.batch, seed=plan.seed, shuffle=split == "train")
        splits[split] = Batches(rows, order, make)
        if data.augment != UNCHANGED and order.shuffle:
            splits[split] = ChangedCaptions(rows, order, make, change, plan.seed)
    return SplitBatches(splits, longest=longest, cut=cut)


def scene_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """So many images a batch, whatever the length of what is said of them."""
    data, longest = plan.data, tokens_to_read(plan.data.longest, reading.length)
    make = MatchMaker(reading.processor, longest)
    splits: dict[str, Batches] = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows=data.batch, seed=plan.seed, shuffle=split == "train")
        splits[split] = Batches(rows, order, make)
    return SplitBatches(splits, longest=longest)


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Match(model.net)


def ends_of_own(plan: RunPlan) -> dict[str, Any]:
    """A vocabulary that is learned has its end token where it will; what is read as padding is known, so the end is
    the last token."""
    return {} if plan.start is not None else {"ending": "first", "end": None}


TEMPLATE = Template(
    task=Matching(),
    data=CaptionFiles(train="captions.csv", images=("images",), batch=64),
    model={"name": "clip-tiny", "image": 64, "patch": 8},
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=5e-4, betas=(0.9, 0.98), decay=0.1),
    schedule=CosineSchedule(warmup=200),
)
PLACE = "regard.modalities.captions.match_goal"
NEEDS: NeedsByMedia = {
    ("image", "text"): NetNeeds(
        (NetCall("forward", "images, ids, keys=", "an object with logits(): (images, texts)"),), ("channels", "vocab")
    )
}
GOAL = Goal(
    Matching,
    {"captions": f"{PLACE}:caption_batches", "scenes": f"{PLACE}:scene_batches"},
    task_of,
    {"match": TEMPLATE},
    config=ends_of_own,
    tokens=with_frame,
    in_batch=True,
    needs=NEEDS,
)
