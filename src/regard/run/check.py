"""What a run will need, found out before it begins: its data read, its batches measured, a few steps tried."""

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.data.batches import Batches
from regard.data.loader import Loader
from regard.data.table_reading import TableReading
from regard.errors import InputError
from regard.modalities.goals import goal_of
from regard.model import Model
from regard.nn.batchnorm import BatchNorm
from regard.train.distribution import World
from regard.train.progress import SilentReporter, process_memory
from regard.zoo import count_parameters

from .job import PreparedRun, job_of
from .machine import world_of
from .row_notes import data_notes
from .setting_notes import notes_of_settings
from .settings import RunSettings, read_run
from .sizes import other_sizes
from .training import FILE, engine_of, folder_of, locate_models

TRIED = 5  # steps
SHOWN = 20  # bad rows
FEW = 2000  # batches that are looked at
PARTS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"}  # of data, not labels


@dataclass(frozen=True)
class SplitReport:
    rows: int
    batches: int
    padding: float  # padded positions for each real one


@dataclass(frozen=True)
class CheckReport:
    """Result of `regard check`."""

    task: str
    folder: str
    taken: bool  # there is a run in this folder already
    splits: dict[str, SplitReport]
    tables: list[TableReading]  # how the tables were understood
    facts: dict[str, str]  # what the inputs are like, and become
    labels: list[str]  # of classes or tags, where the task has any
    bad_rows: int
    bad: list[str]
    longest: int | None  # tokens of a row that are read
    cut: float  # the share of train's tokens, about, that are beyond that
    model: str
    family: str
    sizes: list[str]  # keys of the config that are not those of the model of this name
    parameters: int
    shapes: dict[str, tuple[int, ...]]  # of the batch that costs most
    seconds_per_step: float
    seconds_per_epoch: float
    seconds_in_all: float
    memory: int  # bytes, the largest batch included
    warnings: list[str]
    exports: list[dict[str, str]]  # libraries that the model can be exported to, or why it cannot


def check_run(path: Path, overrides: tuple[str, ...]) -> CheckReport:
    """Read everything and try a few steps; nothing is written where the run will be."""
    run = locate_models(read_run(path, overrides), path.parent)
    return check_settings(run, folder_of(run, path), path.parent)


def check_settings(run: RunSettings, folder: Path, base: Path) -> CheckReport:
    """The same of settings that are read already; relative paths begin at ``base``."""
    writable(folder)
    with world_of(run) as world, tempfile.TemporaryDirectory() as place:
        job = job_of(run, folder, base)
        seconds = tried(replace(job, folder=Path(place)), run, world)
        train = job.sources.splits["train"]
        heavy = heaviest(train)
        largest = train.collate([int(row) for row in train.rows(heavy)], heavy)
    return CheckReport(
        task=run.task.kind,
        folder=str(job.folder),
        taken=(job.folder / FILE).exists(),
        splits={
            name: SplitReport(x.examples(), len(x), round(x.padding(), 3)) for name, x in job.sources.splits.items()
        },
        tables=list(job.opened.tables),
        facts=dict(job.opened.facts),
        labels=list(job.model.labels),
        bad_rows=len(job.faults),
        bad=[str(job.faults[i]) for i in range(min(len(job.faults), SHOWN))],
        longest=job.sources.longest,
        cut=job.sources.cut,
        model=run.model["name"] if run.start is None else run.start.model,
        family=job.model.family,
        sizes=[] if run.start is not None else other_sizes(run.model["name"], run.model),
        parameters=count_parameters(job.model.net),
        shapes={name: tuple(x.shape) for name, x in vars(largest).items() if isinstance(x, torch.Tensor)},
        seconds_per_step=seconds,
        seconds_per_epoch=seconds * len(train),
        seconds_in_all=seconds * job.run.train.steps,
        memory=process_memory(),
        warnings=warnings(job, world.size),
        exports=export_reports(job.model),
    )


def export_reports(model: Model) -> list[dict[str, str]]:
    """Where the model can go when it is trained: the library, the class there, and what stands against it."""
    from regard.interop.exporting import export_targets  # the tables of other libraries, which a run does not need

    return [vars(target) for target in export_targets(model.family, model.config)]


def writable(folder: Path) -> None:
    """Whether the run's folder could be made there, without making it."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(
            "the run folder is not writable", where=str(folder), got=f"{above} is read-only or not a folder"
        )


def tried(job: PreparedRun, run: RunSettings, world: World) -> float:
    """Seconds of a step, by a few of them and by the most costly batch. The weights are thrown away."""
    engine = engine_of(job, world, SilentReporter())
    train = job.sources.splits["train"]
    steps = [i * max(len(train) // TRIED, 1) for i in range(TRIED)]
    heavy = heaviest(train)
    took: list[float] = []
    for step, pieces in engine.filled(Loader(train, [heavy, *steps], split=run.train.split, seed=run.seed)):
        start = time.monotonic()
        engine.update(step, pieces)
        took.append(time.monotonic() - start)
    return sum(took[1:]) / len(took[1:])


def heaviest(train: Batches) -> int:
    """The step of the first epoch whose batch costs most: by its rows, and by the pairs of places in the longest. What
    is left over for the last batch has the longest rows, but may be only one."""
    return max(range(min(len(train), FEW)), key=train.cost)


def warnings(job: PreparedRun, processes: int) -> list[str]:
    """What is no error, and yet not what somebody might think."""
    told, pieces = [], job.run.train.split * processes
    if pieces > 1 and any(isinstance(module, BatchNorm) for module in job.model.net.modules()):
        told.append(
            f"the model has batch norm layers, which normalize each of the {pieces} pieces of a batch separately: the "
            "gradient differs from that of the full batch"
        )
    if pieces > 1 and goal_of(job.run.task).in_batch:
        told.append(
            f"the loss compares the rows of a batch with each other, within each of the {pieces} pieces separately: it "
            "differs from that of the full batch"
        )
    if odd := [label for label in job.model.labels if label.lower() in PARTS]:
        told.append(
            f"labels are named {', '.join(odd)}: data.train may point to the parent of the folder with the labels"
        )
    held_out = job.sources.splits.get("held_out")
    told += data_notes(job.plan, job.opened, None if held_out is None else held_out.examples())
    told += notes_of_settings(job)
    return [*told, *job.notes, *goal_of(job.run.task).remarks(job.plan, job.sources, job.model)]
