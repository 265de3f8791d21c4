"""A run file and its data, made into a model and a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.captions import Captions
from regard.data.faults import Fault
from regard.data.images import Images, some
from regard.data.text import Text
from regard.data.vocabulary import symbols_of
from regard.errors import InputError
from regard.interop.symbols import NONE
from regard.model import Model
from regard.nn.block import replay_blocks
from regard.tasks.answering import FindAnswer
from regard.tasks.classify import Classify, ClassifyText
from regard.tasks.describing import Describe
from regard.tasks.detecting import Detect, Weights
from regard.tasks.distil import Distil
from regard.tasks.language import Language
from regard.tasks.masked import Masked
from regard.tasks.similar import Similar
from regard.tasks.tagging import Tag
from regard.tasks.task import Task
from regard.tasks.teacher import Teacher
from regard.tasks.translate import Feeding, Translate
from regard.train.update import sow

from .arranging import Sources, arranged
from .beginning import Begun, begin_with, kind_of, whose_words
from .goals import (
    Answering,
    Classification,
    Description,
    Detection,
    LanguageModel,
    MaskedModel,
    MissingSpans,
    Similarity,
    Tagging,
    Translation,
)
from .inputs import Pictures
from .named import named_model
from .settings import Run
from .sources import Opened


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is ready to be trained or measured."""

    run: Run
    folder: Path
    model: Model
    task: Task
    sources: Sources
    faults: Sequence[Fault]
    begun: Begun


def prepare(run: Run, folder: Path, data: Opened, text: Text | None) -> Job:
    """Model and task for this data; new weights follow from the seed."""
    family, config = kind_of(run)
    changes = {key: value for key, value in run.model.items() if key != "name"}
    other = whose_words(run)
    if text is not None:
        least = text.tokenizer.get_vocab_size()
        for key in ("vocab", "target_vocab"):
            if getattr(config, key, None) is not None:  # without one of its own the target has the other's
                usual = least if other is None else getattr(other.config, key, other.config.vocab)  # or room for more
                enough(changes, key, least, "tokens of the vocabulary", usual)
    if (head := head_of(run, config)) and changes.setdefault("head", head) != head:
        got = f"model.head = {changes['head']!r}"
        raise InputError(f"the task {run.task.kind!r} needs another head", got=got, expected=repr(head))
    if isinstance(run.task, Answering):
        changes.setdefault("pooler", False)  # nothing reads it, and with this head theirs has none
    if data.names:
        enough(changes, "classes", len(data.names), "labels of the data", len(data.names))
        named_alike(changes["classes"], data.names)
    sow(run.seed, 0, -1 % (1 << 32))  # the same weights in every process
    begun = begin_with(run, changes)
    symbols = NONE if text is None else symbols_of(text) if other is None else other.symbols
    processor: Text | Images | Captions | None = text if data.images is None else data.images
    if text is not None and data.images is not None:
        processor = Captions(data.images, text)
    model = Model(family, begun.net, processor=processor, task=run.task.kind, symbols=symbols, labels=data.names)
    sources = arranged(run, data, text, getattr(model.config, "length", None), symbols)
    if run.train.recompute and not replay_blocks(model.net):
        raise InputError(f"a {model.family} has no blocks to recompute", fix="set train.recompute = false")
    return Job(run, folder, model, task_of(run, model, sources), sources, data.faults, begun)


def enough(changes: dict[str, Any], key: str, needed: int, what: str, usual: int) -> None:
    """As many as the data has, unless more are asked for."""
    if (given := changes.setdefault(key, usual)) < needed:
        raise InputError(f"model.{key} is too small", got=str(given), expected=f"at least {needed}, the {what}")


def named_alike(classes: int, names: Sequence[str]) -> None:
    """A class that no label stands for could be answered, and would have no name."""
    if classes > len(names):
        raise InputError(
            "model.classes is more than the data has labels",
            got=f"{classes} classes, {len(names)} labels: {some(names)}",
            expected=str(len(names)),
            fix="leave model.classes out: it follows from the data",
        )


def head_of(run: Run, config: Any) -> str:
    """What a model with several heads must have one of; empty where it has no choice."""
    if not hasattr(config, "head"):
        return ""
    heads = {
        "language": "words",
        "classify": "label",
        "tag": "tags",
        "answer": "span",
        "masked": "words",
        "similar": "none",
    }
    if isinstance(run.task, MaskedModel) and run.task.follows:
        return "pretraining"
    return heads[run.task.kind]


def task_of(run: Run, model: Model, sources: Sources) -> Task:
    task = run.task
    if isinstance(task, Translation):
        feeding = Feeding(task.given, task.decay)
        if not task.teacher:
            return Translate(model.net, model.text(), task.smoothing, feeding, task.load)
        teacher = same_words(task.teacher, model)
        how = {"share": task.share, "temperature": task.temperature, "load": task.load}
        return Distil(model.net, model.text(), task.smoothing, teacher.net, feeding=feeding, **how)
    if isinstance(task, Description):
        return Describe(model.net, model.text(), task.smoothing)
    if isinstance(task, LanguageModel):
        return Language(model.net, task.smoothing, model.text().widths(), task.load)
    if isinstance(task, MissingSpans):
        return Translate(model.net, model.text(), task.smoothing, load=task.load)
    if isinstance(task, MaskedModel):
        return Masked(model.net, model.text(), teacher_of(task, model))
    if isinstance(task, Tagging):
        return Tag(model.net, model.text(), sources.names)
    if isinstance(task, Answering):
        return FindAnswer(model.net)
    if isinstance(task, Similarity):
        return Similar(model.net, task.temperature)
    if isinstance(task, Detection):
        weights = Weights(task.label, task.box, task.overlap, task.nothing, task.earlier)
        return Detect(model.net, sources.names, weights)
    assert isinstance(task, Classification)
    kind = Classify if isinstance(run.data, Pictures) else ClassifyText
    harder = round(task.adversarial * run.train.steps)
    return kind(model.net, sources.names, task.smoothing, teacher_of(task, model), harder)


def teacher_of(task: Classification | MaskedModel, model: Model) -> Teacher | None:
    """A model that does the same thing, and better."""
    if not task.teacher:
        return None
    found = named_model(task.teacher) if model.sees() else same_words(task.teacher, model)
    head, own = (getattr(x.config, "head", "") for x in (found, model))
    if found.labels != model.labels or (isinstance(task, MaskedModel) and head not in ("words", "pretraining")):
        raise InputError(
            "this teacher does not do what the student shall learn",
            where=task.teacher,
            got=f"head = {head!r}, labels {', '.join(found.labels) or 'none'}",
            expected=f"head = {own!r}, labels {', '.join(model.labels) or 'none'}",
        )
    net = found.net if not model.sees() else same_images(task.teacher, found, model)
    if isinstance(task, MaskedModel) or task.lesson == "soft":
        return Teacher(net, task.share, task.temperature)
    token = getattr(model.net, "teacher_head", None) is not None
    return Teacher(net, task.share, task.temperature, "hard" if token or task.lesson == "hard" else "soft")


def same_images(name: str, teacher: Model, model: Model) -> nn.Module:
    """A teacher that is shown the very images that the student is, as numbers that it knows."""
    theirs, ours = teacher.processor, model.processor
    if not isinstance(theirs, Images) or not isinstance(ours, Images):
        raise InputError("this teacher does not say how images are prepared for it", where=name)
    if (theirs.size, theirs.channels) != (ours.size, ours.channels):
        raise InputError(
            "teacher and student see images of different sizes or colours",
            where=name,
            got=f"{theirs.size} x {theirs.size}, {theirs.channels} channels",
            expected=f"{ours.size} x {ours.size}, {ours.channels} channels",
        )
    if (theirs.mean, theirs.std) == (ours.mean, ours.std):
        return teacher.net
    return Renormalised(teacher.net, ours, theirs)


class Renormalised(nn.Module):
    """A net for images that were normalised as ``before``, which knows them as ``after``."""

    def __init__(self, net: nn.Module, before: Images, after: Images) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(x, device=images.device)[:, None, None] for x in (self.before.mean, self.before.std))
        return self.net(self.after.normalise((images * std + mean) * 255))


def same_words(name: str, model: Model) -> Model:
    """A teacher that reads and writes the same tokens."""
    teacher = named_model(name)
    if teacher.text().to_bytes() != model.text().to_bytes():
        raise InputError(
            "teacher and student cut text into different tokens",
            where=name,
            fix=f"set data.vocabulary.file to the teacher's: {Path(name) / 'tokenizer.json'}",
        )
    return teacher
