"""From a run file to a trained model: everything a run needs, made in one order, on every process alike."""

import shutil
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

from regard.data.files import find_file
from regard.errors import InputError
from regard.folders import load
from regard.modalities.goals import goal_of
from regard.modalities.run_parts import OpenedData, RunPlan
from regard.modalities.sources import source_of
from regard.nn.config import closest_name
from regard.plugins import require_plugins
from regard.provenance import run_plugins
from regard.storage.atomic import atomic_folder
from regard.storage.atomic import write_file as write_synced
from regard.storage.documents import json_bytes, read_bytes, read_json
from regard.train.checkpoint import remove_path
from regard.train.distribution import World
from regard.train.engine import Engine
from regard.train.metrics_log import Journal
from regard.train.progress import Reporter, SilentReporter
from regard.train.runfile import settings_of_part
from regard.train.runfile_text import run_file_text

from .environment import different, environment_now
from .fingerprints import FILE as FINGERPRINTS
from .fingerprints import RUN, check_fingerprints, fingerprint_bytes, named_files
from .job import PreparedRun, make_job, plan_of
from .machine import locked, world_of
from .named import find_model
from .result import finish
from .settings import RunSettings, read_run

FILE, SMOKE, PLUGINS = RUN, ".smoke", "plugins.json"


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: why it is finished, or empty when it was interrupted."""

    folder: Path
    step: int
    finished: str
    broken: str = ""  # what a short variant should have learned, and did not


def find_run(name: str) -> Path:
    """A run file by its path, or a shipped recipe by its name."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        if not path.is_file():
            raise InputError(
                "the run file is a folder" if path.is_dir() else "run file not found",
                where=name,
                fix="create one with `regard init translate > run.toml`",
            )
        return path
    shipped = files("regard").joinpath("recipes", f"{name}.toml")
    if not shipped.is_file():
        known = sorted(x.name.removesuffix(".toml") for x in files("regard").joinpath("recipes").iterdir())
        fix = f"use a recipe name or a .toml file{closest_name(name, known)}"
        raise InputError("unknown recipe", got=name, expected=", ".join(known), fix=fix)
    return Path(str(shipped))


def placed(run: RunSettings, base: Path) -> RunSettings:
    """The same run, the models that it names found: shipped ones by name, others where files are looked for."""
    models = {key: find_model(getattr(run.task, key), base) for key in goal_of(run.task).models}
    start = None if run.start is None else replace(run.start, model=find_model(run.start.model, base))
    return replace(run, task=replace(run.task, **models), start=start)


def folder_of(run: RunSettings, path: Path) -> Path:
    return Path(run.folder).expanduser() if run.folder else Path("runs") / path.stem


def train_run(path: Path, overrides: tuple[str, ...], reporter: Reporter, *, smoke: bool = False) -> RunOutcome:
    """A new run. Nothing is written before its data is checked and its model built."""
    run = read_run(path, overrides)
    if smoke:
        if run.smoke is None:
            raise InputError("the run file has no [smoke] table", where=str(path))
        run = read_run(path, (*run.smoke.set, *overrides))
    run = placed(run, path.parent)
    folder = folder_of(run, path).resolve()
    if smoke and not any(word.partition("=")[0].strip() == "folder" for word in overrides):
        folder = folder.with_name(f"{folder.name}-smoke")  # the real run's place stays free
    again = smoke and (folder / SMOKE).is_file()  # a short variant can be tried again and again
    if (folder / FILE).exists() and not again:
        raise InputError(
            "the folder already contains a run",
            where=str(folder),
            fix=f"resume it: regard resume {quote(str(folder))}; or choose another folder: folder=...",
        )
    with world_of(run) as world:
        plan = plan_of(run, path.parent)
        opened = source_of(run.data).open(plan)
        job = make_job(run, folder, plan, opened, learned_once(plan, opened, world))
        with world.together():
            if world.first:
                if again:
                    remove_idle(folder)
                begin(job, path.parent, smoke)
                for line in warnings_of(job):
                    reporter.note(line)
        ended = work(job, world, reporter)
        if run.smoke is not None and smoke and ended.finished and world.first:
            return replace(ended, broken=not_learned(folder, run.smoke.factor))
        return ended


def remove_idle(folder: Path) -> None:
    """The short variant that was tried before, unless it is still at work."""
    with locked(folder, World()):
        shutil.rmtree(folder)


def warnings_of(job: PreparedRun) -> list[str]:
    """What a user should know of the data before the run begins."""
    told = [f"{len(job.faults):,} bad rows are skipped: see {job.folder / 'faults.txt'}"] if job.faults else []
    told += [*job.notes, *job.begun.notes]
    if job.sources.cut >= 0.001:
        told.append(
            f"about {job.sources.cut:.1%} of the tokens are truncated: rows are limited to {job.sources.longest} tokens"
        )
    return told


def not_learned(folder: Path, factor: float) -> str:
    """A short variant must have learned something; empty when it has."""
    losses = [loss for line in Journal(folder).lines() if (loss := line.get("loss")) is not None]
    if len(losses) < 2:
        return f"learning cannot be checked with {len(losses)} lines of metrics: lower train.log"
    if not losses[-1] < factor * losses[0]:
        return (
            f"the loss does not decrease: it went from {losses[0]:.4g} to {losses[-1]:.4g}, not below {factor:g} of it"
        )
    return ""


def learned_once(plan: RunPlan, opened: OpenedData, world: World) -> dict[str, bytes]:
    """What is learned from the data before the model, such as a vocabulary: read or learned by the first process."""
    preparation = source_of(plan.data).preparation
    found = preparation.learn(plan, opened) if world.first else {}
    return {name: world.tell(found.get(name, b"").decode("utf-8")).encode("utf-8") for name in preparation.learned}


def begin(job: PreparedRun, base: Path, smoke: bool) -> None:
    """The run's folder, whole or not at all: from here on, `regard resume` needs nothing else."""
    if job.folder.exists() and any(job.folder.iterdir()):
        raise InputError(
            "the folder is not empty and is not a run folder", where=str(job.folder), fix="choose another: folder=..."
        )
    if job.folder.exists():
        job.folder.rmdir()
    run = replace(job.run, folder=str(job.folder), data=absolute(job.run.data, base))
    with atomic_folder(job.folder, 1 << 20) as fresh:
        write_synced(fresh / FILE, run_file_text(run).encode("utf-8"))
        write_synced(fresh / "environment.json", json_bytes(environment_now()))
        write_synced(fresh / FINGERPRINTS, fingerprint_bytes(run))
        if plugins := run_plugins(job.model, run.task.kind, run.data.kind):
            write_synced(fresh / PLUGINS, json_bytes({"plugins": plugins}))
        if smoke:
            write_synced(fresh / SMOKE, b"")
        for name, content in job.learned.items():
            write_synced(fresh / name, content)
        if job.faults:
            told = "".join(f"{job.faults[i]}\n" for i in range(len(job.faults)))
            write_synced(fresh / "faults.txt", told.encode("utf-8"))


def absolute(data: Any, base: Path) -> Any:
    """The same files, whatever folder it is resumed from."""
    changes: dict[str, Any] = {}
    for key in source_of(data).paths:
        paths = tuple(str(find_file(name, base)) for name in named_files(data, key))
        changes[key] = paths if isinstance(getattr(data, key), tuple) else "".join(paths)
    return source_of(data).preparation.absolute(replace(data, **changes), base)


def reopen_run(folder: Path) -> PreparedRun:
    """A run that was begun."""
    if not (folder / FILE).is_file():
        raise InputError("not a run folder", where=str(folder), expected=f"a folder with {FILE}")
    run = read_begun(folder)
    check_fingerprints(folder, run)
    learned = {name: read_learned(folder / name) for name in source_of(run.data).preparation.learned}
    plan = plan_of(run, folder)
    return make_job(run, folder.resolve(), plan, source_of(run.data).open(plan), learned)


def read_begun(folder: Path) -> RunSettings:
    """The run file of a run that was begun, once the plug-ins that it was begun with are there: they know its words."""
    if (plugins := folder / PLUGINS).is_file():
        require_plugins(read_json(plugins).get("plugins"), str(plugins))
    return read_run(folder / FILE)


def read_learned(path: Path) -> bytes:
    """A file that was learned from the data when the run began."""
    if not path.is_file():
        what = f"the run's {path.stem} file is missing"
        raise InputError(what, where=str(path), fix="restore it: the run's model folder contains a copy")
    return read_bytes(path)


def resume_run(folder: Path, reporter: Reporter) -> RunOutcome:
    """Go on where the newest whole checkpoint is; the end is the same to the bit as without the interruption."""
    run = read_begun(folder) if (folder / FILE).is_file() else None
    with world_of(run) as world:
        return work(reopen_run(folder), world, reporter, again=True)


def work(job: PreparedRun, world: World, reporter: Reporter, again: bool = False) -> RunOutcome:
    with locked(job.folder, world):
        sweep(job.folder, world)
        if not any((job.folder / "checkpoints").glob("step-*")):  # else its weights are those of a checkpoint
            source_of(job.run.data).preparation.begin(job.plan, job.model, job.sources)
        engine = engine_of(job, world, reporter if world.first else SilentReporter())
        if again:
            step = engine.resume()
            told = f"resuming after step {step}" if step else "no checkpoint yet: starting at step 0"
            engine.reporter.tell("resumed", {"step": step, "folder": str(job.folder)}, told)
            if other := different(job.folder):
                engine.reporter.note(f"{other}: results may not be bit-identical to those of an uninterrupted run")
        if engine.state.finished and is_model(job.folder / "model"):
            return RunOutcome(job.folder, engine.state.step, engine.state.finished)
        try:
            state = engine.run()
            engine.draw()
            if state.finished and world.first:
                finish(job, engine)
            world.wait()
        except KeyboardInterrupt as stop:
            stop.add_note(at_once(job.folder))
            raise
        return RunOutcome(job.folder, state.step, state.finished)


def at_once(folder: Path) -> str:
    """What is left of a run that was stopped in the middle of a step."""
    there = any((folder / "checkpoints").glob("step-*"))
    lost = "steps after the last checkpoint will be repeated" if there else "there is no checkpoint yet"
    return f"stopped immediately: {lost}. Resume with: regard resume {quote(str(folder))}"


def is_model(folder: Path) -> bool:
    """Whether it can be loaded; one that is damaged is made again from the checkpoints."""
    try:
        return folder.is_dir() and load(folder) is not None
    except InputError:
        return False


def sweep(folder: Path, world: World) -> None:
    """Remove what a crash left half written beside the checkpoints, which are swept by themselves."""
    if world.first:
        for path in (*folder.glob(".model.*"), *folder.glob(".curves.*.part")):
            remove_path(path)


def engine_of(job: PreparedRun, world: World, reporter: Reporter) -> Engine:
    run = job.run
    return Engine(
        job.task,
        job.sources.splits["train"],
        job.sources.splits.get("held_out"),
        settings=run.train,
        optimizer={name: settings_of_part(run.optimizer, name) for name in job.task.parts},
        schedule={name: settings_of_part(run.schedule, name) for name in job.task.parts},
        seed=run.seed,
        folder=job.folder,
        world=world,
        reporter=reporter,
    )
