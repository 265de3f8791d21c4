"""A tag for each word."""

from dataclasses import dataclass
from typing import Literal

from regard.data.batches import Batches
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.framing import TagMaker
from regard.modalities.text.heads import EMBEDDED, has_head
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.runners import text_processor
from regard.modalities.text.sources.tagged import TaggedFiles
from regard.modalities.text.tasks.tagging import Tag
from regard.modalities.text.vocabulary import with_frame
from regard.tasks.task import Task
from regard.train.optimizers import Adam
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train
from regard.zoo import FAMILIES


@dataclass(frozen=True)
class Tagging:
    """A tag for each word."""

    kind: Literal["tag"] = "tag"


def sentence_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length)
    make = TagMaker(text, longest, opened.names, last=FAMILIES[plan.family].tagged == "last")
    return batches_of_texts(plan, opened, text, lambda rows, order: Batches(rows, order, make), longest=longest)


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Tag(model.net, text_processor(model), sources.names)


TEMPLATE = Template(
    task=Tagging(),
    data=TaggedFiles(train=("words.conllu",)),
    model={"name": "bilstm", "dropout": 0.3},
    train=Train(steps=2000, evaluate=200, save=200, log=20),
    optimizer=Adam(rate=3e-3),
    schedule=CosineSchedule(warmup=50),
)
TAGGED = NetCall("tagged", "ids, segments=, keys=", "logits (b, n, classes)")
NEEDS: NeedsByMedia = {("text",): NetNeeds((TAGGED, EMBEDDED), ("vocab", "classes"))}
GOAL = Goal(
    Tagging,
    {"tagged": "regard.modalities.text.goals.tag:sentence_batches"},
    task_of,
    {"tag": TEMPLATE},
    config=has_head("tags"),
    tokens=with_frame,
    needs=NEEDS,
)
