"""A run file and its data, made into a model and a task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.faults import Fault
from regard.data.text import Text
from regard.data.vocabulary import symbols_of
from regard.errors import InputError
from regard.interop.symbols import NONE
from regard.model import Model, build
from regard.nn.block import replay_blocks
from regard.tasks.classify import Classify
from regard.tasks.distil import Distil
from regard.tasks.language import Language
from regard.tasks.task import Task
from regard.tasks.translate import Feeding, Translate
from regard.train.update import sow

from .named import named_model
from .settings import Classification, LanguageModel, Run, Translation
from .sources import Opened, Sources, arranged


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is ready to be trained or measured."""

    run: Run
    folder: Path
    model: Model
    task: Task
    sources: Sources
    faults: Sequence[Fault]


def prepare(run: Run, folder: Path, data: Opened, text: Text | None) -> Job:
    """Model and task for this data; the weights follow from the seed."""
    changes = {key: value for key, value in run.model.items() if key != "name"}
    if text is not None:
        enough(changes, "vocab", text.tokenizer.get_vocab_size(), "tokens of the vocabulary")
    if data.names:
        enough(changes, "classes", len(data.names), "labels of the data")
    sow(run.seed, 0, -1 % (1 << 32))  # the same weights in every process
    symbols = NONE if text is None else symbols_of(text)
    model = replace(build(run.model["name"], **changes), processor=text, task=run.task.kind, symbols=symbols)
    sources = arranged(run, data, text, getattr(model.config, "length", None))
    if run.train.recompute and not replay_blocks(model.net):
        raise InputError(f"a {model.family} has no blocks to recompute", fix="set train.recompute = false")
    return Job(run, folder, model, task_of(run, model, sources), sources, data.faults)


def enough(changes: dict[str, Any], key: str, needed: int, what: str) -> None:
    """As many as the data has, unless more are asked for."""
    if (given := changes.setdefault(key, needed)) < needed:
        raise InputError(f"model.{key} is too small", got=str(given), expected=f"at least {needed}, the {what}")


def task_of(run: Run, model: Model, sources: Sources) -> Task:
    task = run.task
    if isinstance(task, Translation):
        feeding = Feeding(task.given, task.decay)
        if not task.teacher:
            return Translate(model.net, model.text(), task.smoothing, feeding, task.load)
        teacher = same_words(task.teacher, model)
        how = {"share": task.share, "temperature": task.temperature, "load": task.load}
        return Distil(model.net, model.text(), task.smoothing, teacher.net, feeding=feeding, **how)
    if isinstance(task, LanguageModel):
        return Language(model.net, task.smoothing, task.load)
    assert isinstance(task, Classification)
    return Classify(model.net, sources.names, task.smoothing)


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
