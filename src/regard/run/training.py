"""From a run file to a trained model: everything a run needs, made in one order, on every process alike."""

import shutil
import tomllib
from collections.abc import Callable, Mapping
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
from regard.modalities.sources import SOURCES, source_of
from regard.nn.config import closest_name
from regard.plugins import require_plugins
from regard.provenance import run_plugins
from regard.storage.atomic import atomic_folder, replace_file
from regard.storage.atomic import write_file as write_synced
from regard.storage.documents import json_bytes, read_bytes, read_json
from regard.train.checkpoint import remove_path
from regard.train.distribution import World
from regard.train.engine import Engine
from regard.train.metrics_log import Journal
from regard.train.progress import Reporter, SilentReporter
from regard.train.runfile import settings_of_part
from regard.train.runfile_text import run_file_text
from regard.unfinished import blueprint_files

from .differences import changed_settings
from .environment import environment_changes, environment_now
from .fingerprints import FILE as FINGERPRINTS
from .fingerprints import RUN, check_fingerprints, fingerprint_bytes, holds_run, named_files
from .job import PreparedRun, make_job, plan_of, with_steps
from .machine import lock_folder, world_of
from .model_names import find_model_folder
from .prolonging import change_notes, check_changes, check_length, other_run
from .result import finish
from .settings import RunSettings, read_run, read_stored_run

FILE, SMOKE, PLUGINS = RUN, ".smoke", "plugins.json"
GIVEN = "data"  # a run's own copy of data that was given in Python


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: why it is finished, or empty when it was interrupted."""

    folder: Path
    step: int
    finished: str
    broken: str = ""  # what a short variant should have learned, and did not
    goal: str = ""  # metric that selects the best checkpoint; "-" before it: the largest value is the best


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


def locate_models(run: RunSettings, base: Path) -> RunSettings:
    """The same run, the models that it names found: shipped ones by name, others where files are looked for."""
    models = {key: find_model_folder(getattr(run.task, key), base) for key in goal_of(run.task).models}
    start = None if run.start is None else replace(run.start, model=find_model_folder(run.start.model, base))
    return replace(run, task=replace(run.task, **models), start=start)


def folder_of(run: RunSettings, path: Path) -> Path:
    return Path(run.folder).expanduser() if run.folder else Path("runs") / path.stem


def never() -> bool:
    """Nobody asks a run to stop."""
    return False


def train_run(path: Path, overrides: tuple[str, ...], reporter: Reporter, *, smoke: bool = False) -> RunOutcome:
    """A new run. Nothing is written before its data is checked, its model built and its engine ready."""
    run = read_run(path, overrides)
    if smoke:
        if run.smoke is None:
            raise InputError("the run file has no [smoke] table", where=str(path))
        run = read_run(path, (*run.smoke.set, *overrides))
    run = locate_models(run, path.parent)
    folder = folder_of(run, path).resolve()
    if smoke and not any(word.partition("=")[0].strip() == "folder" for word in overrides):
        folder = folder.with_name(f"{folder.name}-smoke")  # the real run's place stays free
    again = smoke and (folder / SMOKE).is_file()  # a short variant can be tried again and again
    return begin_run(run, folder, path.parent, reporter, smoke=smoke, again=again)


def begin_run(
    run: RunSettings,
    folder: Path,
    base: Path,
    reporter: Reporter,
    asked_to_stop: Callable[[], bool] = never,
    *,
    smoke: bool = False,
    again: bool = False,
) -> RunOutcome:
    """A new run in a folder; relative paths begin at ``base``. ``again``: a short variant that was tried before."""
    if (folder / FILE).exists() and not again:
        check_same_run(run, folder, base)
        told = "the folder already contains this run, with the same settings"
        return resume_run(folder, reporter, asked_to_stop, notes=(told,))
    with world_of(run) as world:
        job = prepared_once(run, folder, base, world)
        engine = new_engine(job, world, reporter)
        with world.together():
            if world.first:
                if again:
                    remove_idle(folder)
                begin(job, base, smoke)
                for line in warnings_of(job):
                    reporter.note(line)
        with lock_folder(job.folder, world):
            ended = work(job, engine, asked_to_stop)
        if run.smoke is not None and smoke and ended.finished and world.first:
            return replace(ended, broken=not_learned(folder, run.smoke.factor))
        return ended


def check_same_run(run: RunSettings, folder: Path, base: Path) -> None:
    """Refuse a folder that contains a run, unless it is this very one."""
    changed, how = "a run file that is none of a run", ""
    if holds_run(folder):
        changed, how = other_run(folder, read_begun(folder), as_begun(run, folder, base))
    if changed:
        resume = f"resume it: {' '.join(['regard resume', quote(str(folder)), how]).strip()}"
        raise InputError(
            "the folder already contains a run",
            where=str(folder),
            got=changed,
            fix=f"{resume}; or choose another folder: folder=...",
        )


def prepared_once(run: RunSettings, folder: Path, base: Path, world: World) -> PreparedRun:
    """A new run, checked and built in every process; what is learned from the data is learned by the first."""
    plan = plan_of(run, base)
    opened = source_of(run.data).open(plan)
    return make_job(run, folder, plan, opened, learned_once(plan, opened, world))


def remove_idle(folder: Path) -> None:
    """The short variant that was tried before, unless it is still at work."""
    with lock_folder(folder, World()):
        shutil.rmtree(folder)


def warnings_of(job: PreparedRun) -> list[str]:
    """What a user should know of the data before the run begins."""
    told = [f"{len(job.faults):,} bad rows are skipped: see {job.folder / 'faults.txt'}"] if job.faults else []
    told += [f"data.{one.split}: {one.file} is read as {one.format}" for one in job.opened.tables if one.detected]
    told += [*job.notes, *job.begun.notes]
    if job.sources.cut >= 0.001:
        told.append(
            f"about {job.sources.cut:.1%} of the tokens are truncated: rows are limited to {job.sources.longest} tokens"
        )
    return told


def not_learned(folder: Path, factor: float) -> str:
    """A short variant must have learned something; empty when it has."""
    losses = [loss for line in Journal(folder).lines() if (loss := line.get("loss")) is not None]
    if not losses:  # of a task of several parts: what is measured first
        losses = [next(iter(line["held_out"].values())) for line in Journal(folder).lines() if "held_out" in line]
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
    files = files_of(job, base, smoke)
    there = {path.name for path in job.folder.iterdir()} if job.folder.exists() else set()
    if there == {GIVEN}:  # data that was given in Python; what makes the folder a run comes last
        for name in sorted(files, key=lambda name: name == FILE):
            write_below(job.folder, name, files[name])
        return
    if there:
        raise InputError(
            "the folder is not empty and is not a run folder", where=str(job.folder), fix="choose another: folder=..."
        )
    if job.folder.exists():
        job.folder.rmdir()
    with atomic_folder(job.folder, 1 << 20) as fresh:
        for name, content in files.items():
            write_below(fresh, name, content)


def write_below(folder: Path, name: str, content: bytes) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    write_synced(folder / name, content)


def files_of(job: PreparedRun, base: Path, smoke: bool) -> dict[str, bytes]:
    """What stands in a run's folder when it begins."""
    run = as_begun(job.run, job.folder, base)
    files = {
        FILE: run_file_text(run).encode("utf-8"),
        "environment.json": json_bytes(environment_now()),
        FINGERPRINTS: fingerprint_bytes(run),
        **job.learned,
        **blueprint_of(job),
    }
    if plugins := run_plugins(job.model, run.task.kind, run.data.kind):
        files[PLUGINS] = json_bytes({"plugins": plugins})
    if smoke:
        files[SMOKE] = b""
    if job.faults:
        files["faults.txt"] = "".join(f"{job.faults[i]}\n" for i in range(len(job.faults))).encode("utf-8")
    return files


def blueprint_of(job: PreparedRun) -> dict[str, bytes]:
    """What the model of a checkpoint can be built from, without the data."""
    start = job.run.start
    scale = start.alpha / start.rank if start is not None and start.learn == "adapters" and not start.part else None
    return blueprint_files(job.model, goal_of(job.run.task).kept, scale)


def as_begun(run: RunSettings, folder: Path, base: Path) -> RunSettings:
    """The settings of a run as its folder has them."""
    return replace(run, folder=str(folder), data=absolute(run.data, base))


def absolute(data: Any, base: Path) -> Any:
    """The same files, whatever folder it is resumed from."""
    changes: dict[str, Any] = {}
    for key in source_of(data).paths:
        paths = tuple(str(find_file(name, base)) for name in named_files(data, key))
        changes[key] = paths if isinstance(getattr(data, key), tuple) else "".join(paths)
    return source_of(data).preparation.absolute(replace(data, **changes), base)


def reopen_run(folder: Path, changes: tuple[str, ...] = (), tested: Mapping[str, Any] | None = None) -> PreparedRun:
    """A run that was begun; ``tested`` are settings of test data from elsewhere."""
    if not (folder / FILE).is_file():
        raise InputError("not a run folder", where=str(folder), expected=f"a folder with {FILE}")
    run = read_begun(folder, changes)
    check_fingerprints(folder, run)
    learned = {name: read_learned(folder / name) for name in source_of(run.data).preparation.learned}
    plan = plan_of(run, folder)
    if tested is not None:
        plan = replace(plan, data=replace(run.data, test=tested["test"]), tested=replace(run.data, **tested))
    return make_job(run, folder.resolve(), plan, source_of(run.data).open(plan), learned)


def read_begun(folder: Path, changes: tuple[str, ...] = ()) -> RunSettings:
    """The run file of a run that was begun, once the plug-ins that it was begun with are there: they know its words.
    ``changes`` can only be of what it may still become."""
    if (plugins := folder / PLUGINS).is_file():
        require_plugins(read_json(plugins).get("plugins"), str(plugins))
    before = settings_of_before(folder / FILE)
    run = read_stored_run(folder / FILE, before)
    if changes:
        after = read_stored_run(folder / FILE, (*before, *changes))
        check_changes(folder, run, after)
        return after
    return run


def settings_of_before(path: Path) -> tuple[str, ...]:
    """A run's file has every setting, with its default: what it lacks there was not when the run began. The data is
    read as it was then."""
    try:
        data = tomllib.loads(path.read_text("utf-8")).get("data")
    except ValueError:  # read_run says what is wrong
        return ()
    if not isinstance(data, dict) or not isinstance(kind := data.get("kind"), str) or kind not in SOURCES:
        return ()
    before = SOURCES[kind].before
    return tuple(f"data.{key}={value}" for key, value in before.items() if key not in data)


def read_learned(path: Path) -> bytes:
    """A file that was learned from the data when the run began."""
    if not path.is_file():
        what = f"the run's {path.stem} file is missing"
        raise InputError(what, where=str(path), fix="restore it: the run's model folder contains a copy")
    return read_bytes(path)


def resume_run(
    folder: Path,
    reporter: Reporter,
    asked_to_stop: Callable[[], bool] = never,
    changes: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> RunOutcome:
    """Go on where the newest whole checkpoint is; the end is the same to the bit as without the interruption.
    ``changes`` of the run's settings, such as train.steps=800, are kept in its folder."""
    run = read_begun(folder, changes) if (folder / FILE).is_file() else None
    with world_of(run) as world:
        job = reopen_run(folder, changes)
        if changes:
            before = with_steps(read_begun(folder), job.sources)
            check_length(folder, before, job.run)
            notes += tuple(change_notes(before, job.run))
        with lock_folder(job.folder, world):
            sweep(job.folder, world)
            there = any((job.folder / "checkpoints").glob("step-*"))  # then its weights are those of a checkpoint
            engine = engine_of(job, world, reporter) if there else new_engine(job, world, reporter)
            if world.first:
                keep_settings(job.folder / FILE, job.run)
            for note in notes:
                engine.reporter.note(note)
            step = engine.resume()
            told = f"resuming after step {step}" if step else "no checkpoint yet: starting at step 0"
            engine.reporter.tell("resumed", {"step": step, "folder": str(job.folder)}, told)
            if other := environment_changes(job.folder):
                engine.reporter.note(f"{other}: results may not be bit-identical to those of an uninterrupted run")
            return work(job, engine, asked_to_stop)


def work(job: PreparedRun, engine: Engine, asked_to_stop: Callable[[], bool]) -> RunOutcome:
    """Train from where the engine is, and save the result. The folder is locked."""
    engine.asked_to_stop = asked_to_stop
    if engine.state.finished and is_model(job.folder / "model"):
        return RunOutcome(job.folder, engine.state.step, engine.state.finished, goal=job.task.goal)
    try:
        state = engine.run()
        engine.draw()
        if state.finished and engine.world.first:
            finish(job, engine)
        engine.world.wait()
    except KeyboardInterrupt as stop:
        stop.add_note(at_once(job.folder))
        raise
    return RunOutcome(job.folder, state.step, state.finished, goal=job.task.goal)


def keep_settings(file: Path, run: RunSettings) -> None:
    """The run file of a run that goes on with other settings, anew; any other stays as somebody left it."""
    if changed_settings(read_begun(file.parent), run):
        replace_file(file, run_file_text(run).encode("utf-8"))


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
        for path in (*folder.glob(".model.*"), *folder.glob(".*.part")):
            remove_path(path)


def new_engine(job: PreparedRun, world: World, reporter: Reporter) -> Engine:
    """For a run without a checkpoint: its data may give the model its first weights."""
    source_of(job.run.data).preparation.begin(job.plan, job.model, job.sources)
    return engine_of(job, world, reporter)


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
        reporter=reporter if world.first else SilentReporter(),
    )
