"""Learn similar embeddings for two texts with the same meaning."""

from dataclasses import dataclass
from typing import Literal

from regard.data.batches import Batches
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.framing import CoupleMaker
from regard.modalities.text.heads import has_head
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.sources.pairs import PairFiles
from regard.modalities.text.tasks.similarity import Similar
from regard.modalities.text.vocabulary import with_frame
from regard.nn.config import not_above_zero, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import LinearSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class Similarity:
    """Learn similar embeddings for two texts with the same meaning."""

    kind: Literal["similar"] = "similar"
    temperature: float = setting(0.05, "softmax temperature: cosine similarities are divided by it")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "temperature"))


def pair_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length)
    make = CoupleMaker(text, longest)
    return batches_of_texts(plan, opened, text, lambda rows, order: Batches(rows, order, make), longest=longest)


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Similar(model.net, plan.task.temperature)


TEMPLATE = Template(
    task=Similarity(),
    data=PairFiles(train=("pairs.tsv",), longest=64),
    model={"name": "bert-mini", "length": 64},
    train=Train(steps=2000, evaluate=100, save=100, log=10),
    optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
    schedule=LinearSchedule(warmup=100),
)
NEEDS: NeedsByMedia = {("text",): NetNeeds((NetCall("read", "ids, keys=", "states (b, n, dim)"),), ("vocab", "dim"))}
GOAL = Goal(
    Similarity,
    {"pairs": "regard.modalities.text.goals.similar:pair_batches"},
    task_of,
    {"similar": TEMPLATE},
    config=has_head("none"),
    tokens=with_frame,
    in_batch=True,
    needs=NEEDS,
)
