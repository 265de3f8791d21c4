"""Predict each word of a caption from its image and the words before it."""

from dataclasses import dataclass
from typing import Literal

from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetNeeds
from regard.modalities.run_parts import Goal, RunPlan, SplitBatches, Template
from regard.modalities.text.runners import text_processor
from regard.modalities.text.tasks.translation import ENCODER_DECODER_CALLS
from regard.nn.config import not_shares, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train

from .captioning import Describe
from .measuring import measure_captions
from .sources.files import CaptionFiles


@dataclass(frozen=True)
class Description:
    """Predict each word of a caption from its image and the words before it."""

    kind: Literal["describe"] = "describe"
    smoothing: float = setting(0.0, "label smoothing")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"))


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Describe(model.net, text_processor(model), plan.task.smoothing)


TEMPLATE = Template(
    task=Description(),
    data=CaptionFiles(train="captions.csv", images=("images",)),
    model={
        "name": "captioner-tiny",
        "image": 64,
        "patch": 8,
        "dim": 128,
        "depth": 4,
        "heads": 4,
        "hidden": 512,
        "dropout": 0.1,
    },
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
    schedule=CosineSchedule(warmup=200),
)
BATCHES = "regard.modalities.captions.batching"
NEEDS: NeedsByMedia = {("image", "text"): NetNeeds(ENCODER_DECODER_CALLS, ("channels", "vocab"))}
GOAL = Goal(
    Description,
    {"captions": f"{BATCHES}:caption_batches", "scenes": f"{BATCHES}:scene_batches"},
    task_of,
    {"describe": TEMPLATE},
    measure=measure_captions,
    needs=NEEDS,
)
