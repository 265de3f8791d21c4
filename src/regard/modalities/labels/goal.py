"""One label for each example, be it a text or an image."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.data.batches import Batches
from regard.modalities.images.sources.files import ImageFiles
from regard.modalities.images.teaching import same_images
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.modalities.sources import source_of
from regard.modalities.teaching import SHARE, TEACHER, TEMPERATURE, check_teacher, not_share
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.framing import LabelMaker
from regard.modalities.text.heads import has_head
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.sources.labelled import LabelledFiles
from regard.modalities.text.teaching import same_words
from regard.modalities.text.vocabulary import with_frame
from regard.nn.config import not_above_zero, not_at_least, not_shares, refuse
from regard.tasks.classify import Classify
from regard.tasks.task import Task
from regard.tasks.teacher import Teacher
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule, LinearSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class Classification:
    """One label for each example."""

    kind: Literal["classify"] = "classify"
    smoothing: float = setting(0.0, "label smoothing")
    teacher: str = setting("", TEACHER)
    share: float = setting(0.5, SHARE)
    lesson: Literal["usual", "soft", "hard"] = setting(
        "usual",
        "distillation targets; soft: the teacher's probabilities; hard: its most likely class; usual: hard for a deit, "
        "else soft",
    )
    temperature: float = setting(2.0, TEMPERATURE + ", for soft targets")
    adversarial: float = setting(
        0.0,
        "adversarial training (HAT): fraction of the steps, the first ones, on adversarial images; each costs three "
        "times as much",
    )

    def __post_init__(self) -> None:
        wrong = not_share(self.share) + not_at_least(0, self, "adversarial")
        if self.adversarial is not None and self.adversarial > 1:
            wrong += [f"adversarial = {self.adversarial} is greater than 1"]
        if self.adversarial and self.teacher:
            wrong += ["adversarial and teacher cannot be combined"]
        refuse(not_shares(self, "smoothing"), not_above_zero(self, "temperature"), wrong)


def text_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    text, longest = reading.processor, tokens_to_read(plan.data.longest, reading.length)
    make = LabelMaker(text, longest)
    return batches_of_texts(
        plan, opened, text, lambda rows, order: Batches(rows, order, make), longest=longest, in_one=True
    )


def problems(task: Any, data: Any) -> list[str]:
    if task.adversarial and source_of(data).media != ("image",):
        return [f"task.adversarial: adversarial training needs images, and data of kind {data.kind!r} has none"]
    return []


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    harder = round(plan.task.adversarial * plan.steps)
    return Classify(model.net, sources.names, plan.task.smoothing, teacher_of(plan, model), harder)


def teacher_of(plan: RunPlan, model: ModelView) -> Teacher | None:
    task = plan.task
    if not task.teacher:
        return None
    images = model.takes == ("image",)
    found = plan.load(task.teacher) if images else same_words(plan, task.teacher, model)
    check_teacher(task.teacher, found, model)
    net = same_images(task.teacher, found, model) if images else found.net
    token = getattr(model.net, "teacher_head", None) is not None
    hard = task.lesson == "hard" or (task.lesson == "usual" and token)
    return Teacher(net, task.share, task.temperature, "hard" if hard else "soft")


IMAGES = Template(
    task=Classification(),
    data=ImageFiles(train="images"),
    model={
        "name": "vit-base",
        "image": 28,
        "patch": 4,
        "channels": 1,
        "dim": 96,
        "depth": 6,
        "heads": 3,
        "hidden": 192,
    },
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.999), decay=0.05),
    schedule=CosineSchedule(warmup=200),
)
TEXTS = Template(
    task=Classification(),
    data=LabelledFiles(train=("texts.tsv",)),
    model={"name": "bert-mini", "length": 128},
    train=Train(steps=2000, evaluate=100, save=100, log=10),
    optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
    schedule=CosineSchedule(warmup=200),
)
FINE_TUNE = Template(
    task=Classification(),
    data=LabelledFiles(train=("texts.tsv",)),
    start="./model",
    train=Train(steps=1000, evaluate=100, save=100, log=10),
    optimizer=AdamW(rate=5e-5, betas=(0.9, 0.999), decay=0.01),
    schedule=LinearSchedule(warmup=100),
)
PIXELS = "regard.modalities.images.batching:image_batches"
GOAL = Goal(
    Classification,
    {"images": PIXELS, "digits": PIXELS, "labelled": "regard.modalities.labels.goal:text_batches"},
    task_of,
    {"classify": IMAGES, "classify-text": TEXTS, "fine-tune": FINE_TUNE},
    models=("teacher",),
    config=has_head("label"),
    tokens=with_frame,
    problems=problems,
)
