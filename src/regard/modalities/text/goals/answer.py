"""Where in a text the answer to a question stands."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.data.batches import Batches
from regard.data.order import Order
from regard.data.rows import IntegerArray, Rows
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.text.batching import batches_of_texts, lengths_as_read
from regard.modalities.text.framing import AnswerMaker
from regard.modalities.text.heads import EMBEDDED, head_changes
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.sources.answers import AnswerFiles
from regard.modalities.text.tasks.answering import FindAnswer
from regard.modalities.text.vocabulary import with_frame
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.schedules import LinearSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class Answering:
    """Where in a text the answer to a question stands."""

    kind: Literal["answer"] = "answer"


def question_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length)

    def make(rows: Rows, order: Order) -> Batches:
        return Batches(rows, order, AnswerMaker(text, longest, whole=not order.shuffle))

    return batches_of_texts(plan, opened, text, make, longest=longest, in_one=True, cost=parts)


def parts(lengths: IntegerArray, longest: int, shuffle: bool) -> IntegerArray:
    """In training a part with the answer; else all parts, and each token is in two of them."""
    return lengths_as_read(lengths, longest, shuffle) if shuffle else np.where(lengths > longest, 2 * lengths, lengths)


def head(plan: RunPlan) -> dict[str, Any]:
    """Nothing reads a pooler, and with this head others have none."""
    changes = head_changes(plan, "span")
    return changes | {"pooler": plan.asked.get("pooler", False)} if changes else {}


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return FindAnswer(model.net)


TEMPLATE = Template(
    task=Answering(),
    data=AnswerFiles(train=("questions.tsv",)),
    model={"name": "bert-mini", "length": 256},
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
    schedule=LinearSchedule(warmup=250),
)
SPANNED = NetCall("spanned", "ids, segments=, keys=", "logits of start and end (b, n, 2)")
NEEDS: NeedsByMedia = {("text",): NetNeeds((SPANNED, EMBEDDED), ("vocab",))}
GOAL = Goal(
    Answering,
    {"answers": "regard.modalities.text.goals.answer:question_batches"},
    task_of,
    {"answer": TEMPLATE},
    config=head,
    tokens=with_frame,
    needs=NEEDS,
)
