"""Predict masked tokens from their context."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.data.batches import RandomBatches
from regard.data.order import Order
from regard.data.rows import Rows
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.teaching import SHARE_HELP, TEACHER_HELP, TEMPERATURE_HELP, check_teacher, not_share
from regard.modalities.text.batching import batches_of_texts, unchanged_rows
from regard.modalities.text.heads import head_changes
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.masking import Masking, Neighbours
from regard.modalities.text.processor import Text
from regard.modalities.text.runners import text_processor
from regard.modalities.text.sources.plain import TextFiles
from regard.modalities.text.tasks.masked import Masked
from regard.modalities.text.teaching import same_words
from regard.modalities.text.vocabulary import with_frame, with_mask
from regard.nn.config import not_above_zero, not_shares, refuse
from regard.tasks.task import Task
from regard.tasks.teacher import Teacher
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import LinearSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class MaskedModel:
    """Predict masked tokens from their context."""

    kind: Literal["masked"] = "masked"
    chosen: float = setting(
        0.15, "fraction of tokens to predict: 80 % of them are masked, 10 % replaced at random, 10 % unchanged"
    )
    follows: bool = setting(
        False, "next-sentence prediction: also predict whether the second line follows the first or is a random one"
    )
    teacher: str = setting("", TEACHER_HELP)
    share: float = setting(0.5, SHARE_HELP)
    temperature: float = setting(2.0, TEMPERATURE_HELP)

    def __post_init__(self) -> None:
        refuse(not_shares(self, "chosen"), not_above_zero(self, "chosen", "temperature"), not_share(self.share))


def text_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Lines, or each line with the next."""
    text, follows, longest = reading.processor, plan.task.follows, tokens_to_read(plan.data.longest, reading.length)

    def make(rows: Rows, order: Order) -> RandomBatches:
        others = rows.source if isinstance(rows, Neighbours) else None
        return RandomBatches(rows, order, Masking(text, longest, plan.task.chosen, others), plan.seed)

    return batches_of_texts(
        plan, opened, text, make, longest=longest, rows_of=Neighbours if follows else unchanged_rows, in_one=follows
    )


def tokens(text: Text) -> Text:
    with_mask(text)
    return with_frame(text)


def head(plan: RunPlan) -> dict[str, Any]:
    return head_changes(plan, "pretraining" if plan.task.follows else "words")


def problems(task: Any, data: Any) -> list[str]:
    if data.kind == "text" and data.unit == "text":
        return ["data.unit = 'text' cannot be used with the task 'masked': set data.unit = 'line'"]
    return []


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    task, teacher = plan.task, None
    if task.teacher:
        found = same_words(plan, task.teacher, model)
        check_teacher(task.teacher, found, model, ("words", "pretraining"))
        teacher = Teacher(found.net, task.share, task.temperature)
    return Masked(model.net, text_processor(model), teacher)


TEMPLATE = Template(
    task=MaskedModel(),
    data=TextFiles(train=("text.txt",)),
    model={"name": "bert-mini", "length": 128},
    train=Train(steps=10000, evaluate=500, save=500, log=50),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
    schedule=LinearSchedule(warmup=500),
)
CALLS = (
    NetCall("read", "ids, segments=, keys=", "states (b, n, dim)"),
    NetCall("score", "states, wanted", "CrossEntropy"),
    NetCall("forward", "ids, segments=, keys=", "an object with words, logits (b, n, vocab)"),
    NetCall("judged", "states, keys", "logits (b, 2)", when="task.follows"),
    NetCall("guessed", "states", "logits (..., vocab)", when="task.teacher"),
)
NEEDS: NeedsByMedia = {("text",): NetNeeds(CALLS, ("vocab",))}
GOAL = Goal(
    MaskedModel,
    {"text": "regard.modalities.text.goals.masked:text_batches"},
    task_of,
    {"masked": TEMPLATE},
    models=("teacher",),
    config=head,
    tokens=tokens,
    problems=problems,
    needs=NEEDS,
)
