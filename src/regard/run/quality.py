"""How good a run's model is on one part of its data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from regard.data.captioned import CaptionedImages
from regard.data.captions import Captions
from regard.data.faults import tolerate
from regard.data.rows import Rows
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.folders import load
from regard.model import Model
from regard.nn.adapter import merge
from regard.tasks.bleu import Quality, by_length, quality, quality_of_several
from regard.tasks.describing import Describing
from regard.tasks.translating import Translating
from regard.train.checkpoint import damage
from regard.train.engine import Engine
from regard.train.progress import Reporter
from regard.train.shards import fill

from .arranging import texts_of
from .captioning import without_images
from .goals import Description, Translation
from .sources import found, pair_rows
from .start import engine_of, reopen, world_of

EDGES = (10, 15, 20, 30)  # words of a source
TRIES = 5
TOGETHER = 32  # images that are described at once


@dataclass(frozen=True)
class Measured:
    weights: str  # which of the run's weights were measured
    metrics: dict[str, float]
    translated: Quality | None = None  # of translators alone
    lengths: dict[str, Quality] | None = None  # the same, by the length of the source
    described: Quality | None = None  # of captioners alone: each image's caption, held against all that it has


def measured(folder: Path, split: str, reporter: Reporter, decoding: Decoding | None = None) -> Measured:
    """Of the final model if the run is finished, else of its best weights so far."""
    job = reopen(folder)
    if split not in job.sources.splits:
        raise InputError(f"this run has no {split} data", expected=", ".join(job.sources.splits))
    with world_of(job.run) as world:
        engine = engine_of(job, world, reporter)
        weights = taken(engine, folder)
        data = job.sources.splits[split]
        metrics = engine.evaluate(data)[0]
        if isinstance(job.run.task, Description):
            return Measured(weights, metrics, described=described(job.model, data.source, decoding or Decoding()))
        if not isinstance(job.run.task, Translation):
            return Measured(weights, metrics)
        return replace(scored(job.model, data.source, decoding or Decoding()), weights=weights, metrics=metrics)


def measured_on(model: Model, files: Sequence[str], columns: Sequence[int | str], decoding: Decoding) -> Measured:
    """Of any translator, on any sources with their translations: one file of two columns, or two files."""
    if model.task not in (None, "translate") or not hasattr(model.net, "encode"):
        raise InputError(
            "only a translator can be measured on files of its own",
            got=f"a {model.family} whose task is {model.task}",
            fix="name the folder of a run, without --data",
        )
    rows = pair_rows([found(name, Path()) for name in files], columns)
    tolerate(rows.faults, len(rows) + len(rows.faults), name="--data")
    return scored(model, rows, decoding)


def scored(model: Model, rows: Rows, decoding: Decoding) -> Measured:
    sources, hypotheses, references = translated(model, rows, decoding)
    parts = by_length(sources, hypotheses, references, EDGES)
    return Measured("the model", {}, quality(hypotheses, references), parts)


def taken(engine: Engine, folder: Path) -> str:
    """Put the weights to be measured into the task's net, and say which they are."""
    for left in reversed(range(TRIES)):
        try:
            found = finished(engine, folder) or best_so_far(engine, folder)
            break
        except FileNotFoundError:  # a run that goes on meanwhile threw it away: there is a newer one
            if not left:
                raise
    engine.shadows.clear()
    return found


def finished(engine: Engine, folder: Path) -> str:
    """The final model, unless the run was prolonged since; empty where there is none."""
    if not (folder / "model").is_dir():
        return ""
    path = engine.checkpoints.newest(engine.reporter.note)
    if path is not None:
        engine.restore(path)
        if not engine.state.finished:
            return ""
    for part in engine.task.parts.values():
        merge(part)
        fill(part, load(folder / "model").state_dict())
    return "the final model"


def best_so_far(engine: Engine, folder: Path) -> str:
    path = engine.checkpoints.newest(engine.reporter.note)
    if path is None:
        there = bool(engine.checkpoints.all())
        what = "every checkpoint of this run is damaged" if there else "this run has no checkpoint yet"
        raise InputError(what, where=str(folder), fix="put the files back" if there else "train it first")
    engine.restore(path)
    best = dict(engine.checkpoints.all()).get(engine.state.best_step)
    if best is not None and best != path:
        if problem := damage(best):
            engine.reporter.note(f"{best} is the best, but damaged and passed over: {problem}")
        else:
            engine.restore(best)
    for shadow in engine.shadows.values():
        shadow.exchange()  # what is measured is their mean, where there is one
    judged = engine.state.best_step == engine.state.step
    return f"the {'best so far' if judged else 'newest'}, of step {engine.state.step}"


def translated(model: Model, rows: Rows, decoding: Decoding) -> tuple[list[str], list[str], list[str]]:
    """Sources, what the model makes of them, and what people did."""
    pairs = [rows[i] for i in range(len(rows))]
    sources, references = [str(pair[0]) for pair in pairs], [str(pair[1]) for pair in pairs]
    net = replace(model, net=model.net.eval())
    found = Translating(net.net, net.text(), net.symbols).translate(sources, decoding)
    return sources, [own[0].text if own else "" for own in found], references


def described(model: Model, rows: Rows, decoding: Decoding) -> Quality:
    """Of what the model says of each image, once, however many captions it has."""
    processor = model.processor
    assert isinstance(processor, Captions)
    several = [[i] for i in range(len(rows))]
    if isinstance(rows, CaptionedImages):
        several, rows = list(rows.by_image().values()), rows.some(np.arange(len(rows)), processor.images)
    describing, texts = Describing(model.net.eval(), processor, model.symbols), without_images(rows)
    said: list[str] = []
    references: list[list[str]] = []
    for start in range(0, len(several), TOGETHER):
        some = several[start : start + TOGETHER]
        pixels = processor.images.normalise(torch.stack([rows[own[0]].image for own in some]))
        said += [found[0].text if found else "" for found in describing.told(pixels, decoding, start)]
        references += [[one for i in own for one in texts_of(texts[i])] for own in some]
    return quality_of_several(said, references)
