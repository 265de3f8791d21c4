"""Object detection: bounding boxes and their classes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.data.rows import Rows, Subset
from regard.errors import first_of
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, RunPlan, SplitBatches, Template
from regard.nn.config import not_above_zero, not_at_least, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train

from .annotations import BoxedImages
from .detection import Detect, LossWeights
from .sources.files import SHOWN, BoxFiles


@dataclass(frozen=True)
class Detection:
    """Object detection: bounding boxes and their classes."""

    kind: Literal["detect"] = "detect"
    label: float = setting(1.0, "weight of classification, in the loss and in the matching cost")
    box: float = setting(5.0, "weight of the L1 distance between boxes, in the loss and in the matching cost")
    overlap: float = setting(2.0, "weight of the generalized IoU of boxes, in the loss and in the matching cost")
    nothing: float = setting(0.1, "weight of classification for queries without an object")
    earlier: float = setting(1.0, "weight of the auxiliary losses of earlier decoder layers; 0: only the last layer")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "label", "box", "overlap", "earlier"), not_above_zero(self, "nothing"))


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    task = plan.task
    return Detect(model.net, sources.names, LossWeights(task.label, task.box, task.overlap, task.nothing, task.earlier))


def remarks(plan: RunPlan, sources: SplitBatches, model: ModelView) -> list[str]:
    return unasked(sources.splits["train"].source, int(model.get("queries")))


def unasked(rows: Rows, queries: int) -> list[str]:
    """Whether images hold more things than there are queries to find them, and which."""
    indices = rows.indices if isinstance(rows, Subset) else np.arange(len(rows))
    source = rows.source if isinstance(rows, Subset) else rows
    if not isinstance(source, BoxedImages):
        return []
    counts = source.things()
    over = [int(i) for i in indices if counts[i] > queries]
    if not over:
        return []
    named = first_of([f"{source.where(i)} ({counts[i]})" for i in over], SHOWN)
    what = f"{len(over)} images contain more objects than model.queries = {queries}"
    return [f"{what}, up to {counts[over].max()}: {', '.join(named)}"]


TEMPLATE = Template(
    task=Detection(),
    data=BoxFiles(train="annotations.json", images=("images",)),
    model={"name": "detr-small", "queries": 50, "depths": [1, 1, 1], "dims": [32, 64, 128], "dim": 128},
    train=Train(steps=20000, clip=0.1, evaluate=500, save=500, log=50),
    optimizer=AdamW(rate=5e-4, betas=(0.9, 0.999), decay=1e-4),
    schedule=CosineSchedule(warmup=500),
)
BATCHES = "regard.modalities.boxes.batching"
CALL = NetCall("forward", "images, sizes", "DETROutput: logits (b, queries, classes + 1), boxes (b, queries, 4)")
NEEDS: NeedsByMedia = {("image",): NetNeeds((CALL,), ("channels", "classes", "queries"))}
GOAL = Goal(
    Detection,
    {"boxes": f"{BATCHES}:box_batches", "shapes": f"{BATCHES}:shape_batches"},
    task_of,
    {"detect": TEMPLATE},
    remarks=remarks,
    needs=NEEDS,
)
