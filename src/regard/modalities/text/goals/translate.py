"""Predict each word of the target from the source and the words before it."""

from dataclasses import dataclass
from typing import Literal

from regard.data.batches import Batches
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.teaching import SHARE_HELP, TEACHER_HELP, TEMPERATURE_HELP, not_share
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.measuring import measure_translations
from regard.modalities.text.pairs import PairMaker
from regard.modalities.text.runners import text_processor
from regard.modalities.text.sources.pairs import PairFiles
from regard.modalities.text.tasks.distillation import Distil
from regard.modalities.text.tasks.translation import ENCODER_DECODER_CALLS, Feeding, Translate
from regard.modalities.text.tasks.words import LOAD
from regard.modalities.text.teaching import same_words
from regard.nn.config import not_above_zero, not_at_least, not_shares, refuse
from regard.tasks.task import Task
from regard.train.optimizers import Adam
from regard.train.runfile import setting
from regard.train.schedules import InverseSqrtSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class TranslationSettings:
    """Predict each word of the target from the source and the words before it."""

    kind: Literal["translate"] = "translate"
    smoothing: float = setting(0.1, "label smoothing")
    given: float = setting(
        1.0, "teacher forcing: fraction of target words taken from the data; the others are the model's predictions"
    )
    decay: float = setting(
        0.0, "k of scheduled sampling: that fraction falls as k / (k + exp(step / k)); 0: it stays constant"
    )
    teacher: str = setting("", TEACHER_HELP)
    share: float = setting(0.5, SHARE_HELP)
    temperature: float = setting(1.0, TEMPERATURE_HELP)
    load: float = setting(LOAD, "weight of the load-balancing loss of models with experts")

    def __post_init__(self) -> None:
        refuse(
            not_shares(self, "smoothing"),
            not_at_least(0, self, "given", "decay", "load"),
            not_above_zero(self, "temperature"),
            [f"given = {self.given} is greater than 1"] if (self.given or 0) > 1 else [],
            not_share(self.share),
        )


def pair_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    longest = tokens_to_read(plan.data.longest, reading.length)
    make = PairMaker(reading.processor, longest, reading.symbols)
    return batches_of_texts(
        plan, opened, reading.processor, lambda rows, order: Batches(rows, order, make), longest=longest
    )


def generated_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Of rows that are all short."""
    make = PairMaker(reading.processor, plan.data.longest, reading.symbols)
    return batches_of_texts(
        plan, opened, reading.processor, lambda rows, order: Batches(rows, order, make), longest=None
    )


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    task, text = plan.task, text_processor(model)
    feeding = Feeding(task.given, task.decay)
    if not task.teacher:
        return Translate(model.net, text, task.smoothing, feeding, task.load)
    teacher = same_words(plan, task.teacher, model)
    how = {"share": task.share, "temperature": task.temperature, "load": task.load}
    return Distil(model.net, text, task.smoothing, teacher.net, feeding=feeding, **how)


TEMPLATE = Template(
    task=TranslationSettings(),
    data=PairFiles(train=("pairs.tsv",)),
    model={"name": "transformer-small"},
    train=Train(steps=10000, evaluate=500, save=500, log=50),
    optimizer=Adam(rate=2e-3),
    schedule=InverseSqrtSchedule(warmup=1000),
)
HERE = "regard.modalities.text.goals.translate"
SAMPLED = (
    NetCall("read", "target, memory, source_keys=, keys=, cache=", "states (b, m, dim)", when="task.given below 1"),
    NetCall("logits", "states", "logits (b, m, vocab)", when="task.given below 1 or task.teacher"),
)
NEEDS: NeedsByMedia = {("text", "text"): NetNeeds((*ENCODER_DECODER_CALLS, *SAMPLED), ("vocab",))}
GOAL = Goal(
    TranslationSettings,
    {"pairs": f"{HERE}:pair_batches", "reverse": f"{HERE}:generated_batches"},
    task_of,
    {"translate": TEMPLATE},
    models=("teacher",),
    measure=measure_translations,
    needs=NEEDS,
)
