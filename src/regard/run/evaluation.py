"""How good a run's model is on one part of its data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.decode.settings import Decoding
from regard.errors import InputError, first_of
from regard.folders import load
from regard.modalities.goals import goal_of
from regard.modalities.run_parts import Scores
from regard.modalities.verb_table import VERBS
from regard.modalities.verbs import verb_function
from regard.model import Model
from regard.nn.adapter import merge
from regard.train.checkpoint import best_checkpoint
from regard.train.engine import Engine
from regard.train.progress import Reporter
from regard.train.shards import fill_weights

from .machine import world_of
from .training import engine_of, reopen_run

TRIES = 5


@dataclass(frozen=True)
class EvaluationResult:
    weights: str  # which of the run's weights were measured
    metrics: dict[str, float]
    scores: dict[str, Any] = field(default_factory=dict)  # what the goal measures beyond these, for JSON
    lines: tuple[str, ...] = ()  # the same for a terminal


def evaluate_run(
    folder: Path,
    split: str,
    reporter: Reporter,
    decoding: Decoding | None = None,
    tested: Mapping[str, Any] | None = None,
) -> EvaluationResult:
    """Of the final model if the run is finished, else of its best weights so far. ``tested`` are settings of data from
    elsewhere, which is measured as the split test: every row of it, or none."""
    job = reopen_run(folder, tested=tested)
    if tested is not None and (faults := job.opened.splits["test"].faults):
        where, got = "\n    ".join(first_of([str(one) for one in faults], TRIES)), f"{len(faults)} bad rows"
        raise InputError("the data cannot be evaluated as it is", where=where, got=got, fix="mend or remove these rows")
    if split not in job.sources.splits:
        raise InputError(f"the run has no {split} data", expected=", ".join(job.sources.splits))
    with world_of(job.run) as world:
        engine = engine_of(job, world, reporter)
        weights = taken(engine, folder, goal_of(job.run.task).kept)
        data = job.sources.splits[split]
        metrics, measure = engine.evaluate(data)[0], goal_of(job.run.task).measure
        if measure is None:
            return EvaluationResult(weights, metrics)
        scores = measure(job.model, data.source, decoding or Decoding())
        return EvaluationResult(weights, metrics, dict(scores.data), scores.lines)


def evaluate_files(
    model: Model, files: Sequence[str], columns: Sequence[int | str], decoding: Decoding
) -> EvaluationResult:
    """How good a model's answers are where files hold what is wanted; of its first verb that can be measured so."""
    able = {name: verb.measured for name, verb in VERBS.items() if verb.measured}
    measured = next((able[name] for name in model.verbs() if name in able), None)
    if measured is None:
        raise InputError(
            "this model cannot be evaluated with --data",
            got=f"a {model.family} trained for the task {model.task}, which supports: {', '.join(model.verbs())}",
            expected=f"a model that supports: {', '.join(able)}",
            fix="give the folder of a run, without --data",
        )
    scores: Scores = verb_function(measured)(model, files, columns, decoding)
    return EvaluationResult("the model", {}, dict(scores.data), scores.lines)


def taken(engine: Engine, folder: Path, kept: str) -> str:
    """Put the weights to be measured into the task's net, and say which they are."""
    for left in reversed(range(TRIES)):
        try:
            found = finished(engine, folder, kept) or best_so_far(engine)
            break
        except FileNotFoundError:  # a run that goes on meanwhile threw it away: there is a newer one
            if not left:
                raise
    engine.shadows.clear()
    return found


def finished(engine: Engine, folder: Path, kept: str) -> str:
    """The final model, unless the run was prolonged since; empty where there is none."""
    if not (folder / "model").is_dir():
        return ""
    path = engine.checkpoints.newest(engine.reporter.note)
    if path is not None:
        engine.restore(path)
        if not engine.state.finished:
            return ""
    part = engine.task.parts[kept]  # the others are those of the newest checkpoint
    merge(part)
    fill_weights(part, load(folder / "model").state_dict())
    return "the final model"


def best_so_far(engine: Engine) -> str:
    engine.restore(best_checkpoint(engine.checkpoints, engine.reporter.note))
    for shadow in engine.shadows.values():
        shadow.exchange()  # what is measured is their mean, where there is one
    judged = engine.state.best_step == engine.state.step
    return f"the {'best' if judged else 'latest'} checkpoint so far, step {engine.state.step}"
