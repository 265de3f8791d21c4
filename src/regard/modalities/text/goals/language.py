"""Predict each token from those before it."""

from dataclasses import dataclass
from typing import Literal

from regard.data.batches import Batches
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.heads import has_head
from regard.modalities.text.lengths import USUAL_LENGTH, tokens_to_read
from regard.modalities.text.lines import LineMaker
from regard.modalities.text.runners import text_processor
from regard.modalities.text.sources.plain import TextFiles
from regard.modalities.text.tasks.language import Language
from regard.modalities.text.tasks.words import LOAD
from regard.modalities.text.windows import PassageMaker, window_batches
from regard.nn.config import not_at_least, not_shares, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class LanguageModel:
    """Predict each token from those before it."""

    kind: Literal["language"] = "language"
    smoothing: float = setting(0.0, "label smoothing")
    load: float = setting(LOAD, "weight of the load-balancing loss of models with experts")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"), not_at_least(0, self, "load"))


def text_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Lines, or a text read through a window; as long as the model reads."""
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length, reading.length or USUAL_LENGTH)
    if plan.data.unit == "text":
        return window_batches(plan, opened, text, longest, PassageMaker(text, reading.symbols))
    make = LineMaker(text, longest, reading.symbols)
    return batches_of_texts(plan, opened, text, lambda rows, order: Batches(rows, order, make), longest=longest)


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Language(model.net, plan.task.smoothing, text_processor(model).widths(), plan.task.load)


TEMPLATE = Template(
    task=LanguageModel(),
    data=TextFiles(train=("text.txt",)),
    model={"name": "gpt-small", "length": 256, "dim": 256, "depth": 6, "heads": 4, "hidden": 1024},
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(),
    schedule=CosineSchedule(warmup=200),
)
CALLS = (
    NetCall("read", "ids, keys=", "states (b, n, dim)"),
    NetCall("score", "states, wanted, real=, smoothing=", "CrossEntropy"),
    NetCall("read", "ids, keys=, cache=", "states (b, n, dim)", verb="generate", stepwise=True),
    NetCall("logits", "states", "logits (b, n, vocab)", verb="generate"),
)
NEEDS: NeedsByMedia = {("text",): NetNeeds(CALLS, ("vocab",))}
GOAL = Goal(
    LanguageModel,
    {"text": "regard.modalities.text.goals.language:text_batches"},
    task_of,
    {"language": TEMPLATE},
    config=has_head("words"),
    needs=NEEDS,
)
