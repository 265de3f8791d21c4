"""A run file and its data, made into a model and a task."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.faults import Fault
from regard.errors import InputError, first_of
from regard.modalities.goals import batch_maker, goal_of
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches
from regard.modalities.sources import source_of
from regard.modalities.verbs import verb_function
from regard.model import Model
from regard.nn.block import replay_blocks
from regard.tasks.task import Task
from regard.train.update import seed_step

from .model_names import load_finished_model
from .settings import RunSettings
from .weights import InitialNet, given_config_keys, initial_net, kind_of


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that is ready to be trained or measured."""

    run: RunSettings
    folder: Path
    plan: RunPlan
    model: Model
    task: Task
    sources: SplitBatches
    faults: Sequence[Fault]
    notes: tuple[str, ...]
    learned: Mapping[str, bytes]  # files of the processor that were learned from the data
    begun: InitialNet
    opened: OpenedData


def plan_of(run: RunSettings, base: Path) -> RunPlan:
    """What a kind of data and a goal need to know of a run; ``base`` is where relative paths begin."""
    family, config = kind_of(run)
    other = None if run.start is None else load_finished_model(run.start.model)
    given = {run.start.part: other} if run.start is not None and other is not None and run.start.part else {}
    start, steps = None if given else other, run.train.steps
    return RunPlan(
        run.task,
        run.data,
        run.seed,
        steps,
        base,
        family,
        config,
        given_config_keys(run),
        start,
        load_finished_model,
        given,
    )


def make_job(
    run: RunSettings, folder: Path, plan: RunPlan, opened: OpenedData, learned: Mapping[str, bytes]
) -> PreparedRun:
    """Model and task for this data; new weights follow from the seed."""
    goal, preparation = goal_of(run.task), source_of(run.data).preparation
    opened = goal.opened(opened)
    processor = preparation.processor(opened, learned)
    changes = dict(plan.asked)
    for key, size in preparation.sizes(plan, processor).items():
        if changes.setdefault(key, size.usual) < size.needed:
            expected = f"at least {size.needed}, the {size.what}"
            raise InputError(f"model.{key} is too small", got=str(changes[key]), expected=expected)
    changes |= goal.config(plan)
    if opened.names:
        changes["classes"] = classes(changes, opened.names)
    seed_step(run.seed, 0, -1 % (1 << 32))  # the same weights in every process
    begun, symbols = initial_net(run, changes), preparation.symbols(plan, processor)
    processor = goal.processor(processor)
    model = Model(plan.family, begun.net, processor, run.task.kind, symbols=symbols, labels=opened.names)
    reading = ReadingLimits(processor, model.length, symbols)
    sources: SplitBatches = verb_function(batch_maker(run.task.kind)[run.data.kind])(plan, opened, reading)
    if run.train.recompute and not replay_blocks(model.net):
        raise InputError(
            f"gradient checkpointing is not supported by {model.family} models", fix="set train.recompute = false"
        )
    run = with_steps(run, sources)
    plan = replace(plan, steps=run.train.steps)
    task = goal.task(plan, model, sources)
    return PreparedRun(run, folder, plan, model, task, sources, opened.faults, opened.notes, learned, begun, opened)


def with_steps(run: RunSettings, sources: SplitBatches) -> RunSettings:
    """The number of steps, where epochs are given."""
    if run.train.epochs is None:
        return run
    steps = max(math.ceil(run.train.epochs * len(sources.splits["train"])), 1)
    return replace(run, train=replace(run.train, steps=steps))


def job_of(run: RunSettings, folder: Path, base: Path) -> PreparedRun:
    """All of it in one process, and nothing is written."""
    plan, kind = plan_of(run, base), source_of(run.data)
    opened = kind.open(plan)
    return make_job(run, folder, plan, opened, kind.preparation.learn(plan, opened))


def classes(changes: Mapping[str, Any], names: Sequence[str]) -> int:
    """As many as there are labels. A class that no label stands for could be answered, and would have no name."""
    given: int = changes.get("classes", len(names))
    if given < len(names):
        expected = f"at least {len(names)}, the number of labels in the data"
        raise InputError("model.classes is too small", got=str(given), expected=expected)
    if given > len(names):
        raise InputError(
            "model.classes is larger than the number of labels in the data",
            got=f"{given} classes, {len(names)} labels: {', '.join(first_of(names))}",
            expected=str(len(names)),
            fix="remove model.classes: it is set from the data",
        )
    return given
