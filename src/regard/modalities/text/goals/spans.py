"""Predict the spans of tokens that were removed from a text."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.processor import Text
from regard.modalities.text.runners import text_processor
from regard.modalities.text.sources.plain import TextFiles
from regard.modalities.text.spans import SpanBatch
from regard.modalities.text.tasks.translation import ENCODER_DECODER_CALLS, Translate
from regard.modalities.text.tasks.words import LOAD
from regard.modalities.text.vocabulary import with_sentinels
from regard.modalities.text.windows import window_batches
from regard.nn.config import not_above_zero, not_at_least, not_shares, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import InverseSqrtSchedule
from regard.train.settings import Train

SENTINELS = 100  # tokens that stand for missing spans


@dataclass(frozen=True)
class MissingSpans:
    """Predict the spans of tokens that were removed from a text."""

    kind: Literal["spans"] = "spans"
    missing: float = setting(0.15, "fraction of the tokens to remove")
    mean: float = setting(3.0, "mean length of a removed span in tokens")
    smoothing: float = setting(0.0, "label smoothing")
    load: float = setting(LOAD, "weight of the load-balancing loss of models with experts")

    def __post_init__(self) -> None:
        wrong = not_at_least(1, self, "mean") + not_at_least(0, self, "load")
        refuse(wrong, not_shares(self, "missing", "smoothing"), not_above_zero(self, "missing"))


def text_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length)
    return window_batches(
        plan, opened, text, longest, SpanBatch(text, longest, plan.task.missing, plan.task.mean, reading.symbols)
    )


def tokens(text: Text) -> Text:
    return with_sentinels(text, SENTINELS)


def problems(task: Any, data: Any) -> list[str]:
    if data.kind == "text" and data.unit == "line":
        return ["data.unit = 'line' cannot be used with the task 'spans': set data.unit = 'text'"]
    return []


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Translate(model.net, text_processor(model), plan.task.smoothing, load=plan.task.load)


TEMPLATE = Template(
    task=MissingSpans(),
    data=TextFiles(train=("text.txt",), unit="text", longest=128),
    model={"name": "t5-small", "dim": 256, "depth": 3, "heads": 4, "hidden": 1024},
    train=Train(steps=10000, evaluate=500, save=500, log=50),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
    schedule=InverseSqrtSchedule(warmup=1000),
)
NEEDS: NeedsByMedia = {("text", "text"): NetNeeds(ENCODER_DECODER_CALLS, ("vocab",))}
GOAL = Goal(
    MissingSpans,
    {"text": "regard.modalities.text.goals.spans:text_batches"},
    task_of,
    {"spans": TEMPLATE},
    tokens=tokens,
    problems=problems,
    needs=NEEDS,
)
