"""One label for each example, be it a text or an image."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.data.batches import Batches
from regard.modalities.inputs import ModelView
from regard.modalities.media import MEDIA
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches
from regard.modalities.sources import source_of
from regard.modalities.teaching import SHARE_HELP, TEACHER_HELP, TEMPERATURE_HELP, check_teacher, not_share
from regard.modalities.text.batching import batches_of_texts
from regard.modalities.text.framing import LabelMaker
from regard.modalities.text.heads import EMBEDDED, has_head
from regard.modalities.text.lengths import tokens_to_read
from regard.modalities.text.vocabulary import with_frame
from regard.modalities.verbs import verb_function
from regard.nn.config import not_above_zero, not_at_least, not_shares, refuse
from regard.tables import Table
from regard.tasks.classify import Classify
from regard.tasks.task import Task
from regard.tasks.teacher import Teacher
from regard.train.runfile import setting


@dataclass(frozen=True)
class Classification:
    """One label for each example."""

    kind: Literal["classify"] = "classify"
    smoothing: float = setting(0.0, "label smoothing")
    teacher: str = setting("", TEACHER_HELP)
    share: float = setting(0.5, SHARE_HELP)
    lesson: Literal["usual", "soft", "hard"] = setting(
        "usual",
        "distillation targets; soft: the teacher's probabilities; hard: its most likely class; usual: hard for a deit, "
        "else soft",
    )
    temperature: float = setting(2.0, TEMPERATURE_HELP + ", for soft targets")
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
    found = plan.load(task.teacher)
    check_teacher(task.teacher, found, model)
    net = verb_function(MEDIA[model.takes[0]].student)(task.teacher, found, model)
    token = getattr(model.net, "teacher_head", None) is not None
    hard = task.lesson == "hard" or (task.lesson == "usual" and token)
    return Teacher(net, task.share, task.temperature, "hard" if hard else "soft")


PIXELS = "regard.modalities.images.batching:image_batches"
TEMPLATES = {"classify": "IMAGES", "classify-text": "TEXTS", "fine-tune": "FINE_TUNE"}
LABELLED = NetCall("labelled", "ids, segments=, keys=", "logits (b, classes)")
NEEDS: NeedsByMedia = {
    ("text",): NetNeeds((LABELLED, EMBEDDED), ("vocab", "classes")),
    ("image",): NetNeeds((NetCall("forward", "images", "logits (b, classes)"),), ("channels", "classes")),
}
GOAL = Goal(
    Classification,
    {"images": PIXELS, "digits": PIXELS, "dataset": PIXELS, "labelled": "regard.modalities.labels.goal:text_batches"},
    task_of,
    Table("template", {name: f"regard.modalities.labels.templates:{row}" for name, row in TEMPLATES.items()}),
    models=("teacher",),
    config=has_head("label"),
    tokens=with_frame,
    problems=problems,
    needs=NEEDS,
)
