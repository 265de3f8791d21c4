"""From a run file to a trained model: everything a run needs, made in one order, on every process alike."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from regard.data.text import Text
from regard.errors import InputError
from regard.folders import load
from regard.interop.texts import json_bytes, read_bytes
from regard.interop.writing import whole
from regard.interop.writing import write as write_synced
from regard.models.word2vec import Config as Word2Vec
from regard.models.word2vec import word_vectors
from regard.nn.config import near
from regard.train.checkpoint import remove
from regard.train.distribution import World, joined
from regard.train.engine import Engine
from regard.train.journal import Journal
from regard.train.progress import Reporter, Silent
from regard.train.runtext import write

from .arranging import texts_of, vocabulary_of
from .boxing import clipped
from .captioning import without_images
from .ending import finish
from .environment import different, environment_now
from .inputs import DrawnScenes, Reverse, Written
from .job import Job, prepare
from .prints import FILE as PRINTS
from .prints import RUN, check_prints, prints_bytes
from .settings import Run, read_run
from .sources import Opened, found, opened, placed

FILE, SMOKE = RUN, ".smoke"


@dataclass(frozen=True)
class Ended:
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
                "this is no run file, but a folder" if path.is_dir() else "there is no such run file",
                where=name,
                fix="`regard init translate > run.toml` writes one",
            )
        return path
    shipped = files("regard").joinpath("recipes", f"{name}.toml")
    if not shipped.is_file():
        known = sorted(x.name.removesuffix(".toml") for x in files("regard").joinpath("recipes").iterdir())
        fix = f"a run file ends with .toml{near(name, known)}"
        raise InputError("no recipe has this name", got=name, expected=", ".join(known), fix=fix)
    return Path(str(shipped))


def folder_of(run: Run, path: Path) -> Path:
    return Path(run.folder).expanduser() if run.folder else Path("runs") / path.stem


def train(path: Path, overrides: tuple[str, ...], reporter: Reporter, *, smoke: bool = False) -> Ended:
    """A new run. Nothing is written before its data is checked and its model built."""
    run = read_run(path, overrides)
    if smoke:
        if run.smoke is None:
            raise InputError("this run file has no [smoke] table", where=str(path))
        run = read_run(path, (*run.smoke.set, *overrides))
    run = placed(run, path.parent)
    folder = folder_of(run, path).resolve()
    if smoke and not any(word.partition("=")[0].strip() == "folder" for word in overrides):
        folder = folder.with_name(f"{folder.name}-smoke")  # the real run's place stays free
    again = smoke and (folder / SMOKE).is_file()  # a short variant can be tried again and again
    if (folder / FILE).exists() and not again:
        raise InputError(
            "there is a run in this folder already",
            where=str(folder),
            fix=f"go on with it: regard resume {quote(str(folder))}; or choose another: folder=...",
        )
    with world_of(run) as world:
        data = opened(run, path.parent)
        text = shared_vocabulary(run, data, world, path.parent)
        job = prepare(run, folder, data, text)
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


def warnings_of(job: Job) -> list[str]:
    """What a user should know of the data before the run begins."""
    told = [f"{len(job.faults):,} bad rows are left out: see {job.folder / 'faults.txt'}"] if job.faults else []
    told += clipped(x.source for x in job.sources.splits.values())
    told += job.begun.notes
    if job.sources.cut >= 0.001:
        told.append(
            f"about {job.sources.cut:.1%} of the tokens are beyond {job.sources.longest} in a row, and are cut off"
        )
    return told


def start_from_vectors(job: Job) -> None:
    """Word vectors learned from the training text, if asked for, as large as the random ones that they replace."""
    data = job.run.data
    if not isinstance(data, Written) or data.vocabulary.vectors == "random":
        return
    rows = without_images(job.sources.splits["train"].source)
    texts = (text for i in range(len(rows)) for text in texts_of(rows[i]))
    table = job.model.net.embed.weight  # type: ignore[union-attr]
    assert isinstance(table, torch.Tensor)
    vocab, dim = table.shape
    found = word_vectors(job.model.text().literal().ids(list(texts)), Word2Vec(vocab=vocab, dim=dim, seed=job.run.seed))
    with torch.no_grad():
        table.copy_(found * (table.std() / found.std()))


def not_learned(folder: Path, factor: float) -> str:
    """A short variant must have learned something; empty when it has."""
    losses = [loss for line in Journal(folder).lines() if (loss := line.get("loss")) is not None]
    if len(losses) < 2:
        return f"learning cannot be judged by {len(losses)} lines of metrics: lower train.log"
    if not losses[-1] < factor * losses[0]:
        return f"learning is broken: the loss went from {losses[0]:.4g} to {losses[-1]:.4g}, not below {factor:g} of it"
    return ""


def shared_vocabulary(run: Run, data: Opened, world: World, base: Path) -> Text | None:
    """Read or learned once, in the first process."""
    text = vocabulary_of(run, data.splits["train"], base) if world.first else None
    told = world.tell("" if text is None else text.to_bytes().decode("utf-8"))
    return Text.from_bytes(told.encode("utf-8"), "the vocabulary of the first process") if told else None


def begin(job: Job, base: Path, smoke: bool) -> None:
    """The run's folder, whole or not at all: from here on, `regard resume` needs nothing else."""
    if job.folder.exists() and any(job.folder.iterdir()):
        raise InputError(
            "this folder has files that are no run", where=str(job.folder), fix="choose another: folder=..."
        )
    if job.folder.exists():
        job.folder.rmdir()
    run = replace(job.run, folder=str(job.folder), data=absolute(job.run.data, base))
    with whole(job.folder, 1 << 20) as fresh:
        write_synced(fresh / FILE, write(run).encode("utf-8"))
        write_synced(fresh / "environment.json", json_bytes(environment_now()))
        write_synced(fresh / PRINTS, prints_bytes(run))
        if smoke:
            write_synced(fresh / SMOKE, b"")
        if job.sources.text is not None:
            write_synced(fresh / "tokenizer.json", job.sources.text.to_bytes())
        if job.faults:
            told = "".join(f"{job.faults[i]}\n" for i in range(len(job.faults)))
            write_synced(fresh / "faults.txt", told.encode("utf-8"))


def absolute(data: Any, base: Path) -> Any:
    """The same files, whatever folder it is resumed from."""
    changes: dict[str, Any] = {}
    for name in ("train", "held_out", "test", "images"):
        given = getattr(data, name, None)
        if isinstance(given, tuple):
            changes[name] = tuple(str(found(one, base)) for one in given)
        elif given:
            changes[name] = str(found(given, base))
    if (vocabulary := getattr(data, "vocabulary", None)) is not None and vocabulary.file:
        changes["vocabulary"] = replace(vocabulary, file=str(found(vocabulary.file, base)))
    return replace(data, **changes)


def reopen(folder: Path) -> Job:
    """A run that was begun."""
    path = folder / FILE
    if not path.is_file():
        raise InputError("this is no run's folder", where=str(folder), expected=f"a folder with {FILE}")
    run = read_run(path)
    check_prints(folder, run)
    tokenizer = folder / "tokenizer.json"
    text = Text.from_bytes(read_bytes(tokenizer), str(tokenizer)) if tokenizer.exists() else None
    if text is None and isinstance(run.data, Reverse | DrawnScenes | Written):
        raise InputError(
            "the run's tokenizer is gone", where=str(tokenizer), fix="put it back: it stands in the run's model too"
        )
    return prepare(run, folder.resolve(), opened(run, folder), text)


def resume(folder: Path, reporter: Reporter) -> Ended:
    """Go on where the newest whole checkpoint is; the end is the same to the bit as without the interruption."""
    run = read_run(folder / FILE) if (folder / FILE).is_file() else None
    with world_of(run) as world:
        return work(reopen(folder), world, reporter, again=True)


def work(job: Job, world: World, reporter: Reporter, again: bool = False) -> Ended:
    with locked(job.folder, world):
        sweep(job.folder, world)
        if not any((job.folder / "checkpoints").glob("step-*")):  # else its weights are those of a checkpoint
            start_from_vectors(job)
        engine = engine_of(job, world, reporter if world.first else Silent())
        if again:
            step = engine.resume()
            told = f"going on after step {step}" if step else "no checkpoint yet: starting at step 0"
            engine.reporter.tell("resumed", {"step": step, "folder": str(job.folder)}, told)
            if other := different(job.folder):
                engine.reporter.note(f"{other}: the bits may differ from those of a run that was never stopped")
        if engine.state.finished and is_model(job.folder / "model"):
            return Ended(job.folder, engine.state.step, engine.state.finished)
        try:
            state = engine.run()
            engine.draw()
            if state.finished and world.first:
                finish(job, engine)
            world.wait()
        except KeyboardInterrupt as stop:
            stop.add_note(at_once(job.folder))
            raise
        return Ended(job.folder, state.step, state.finished)


def at_once(folder: Path) -> str:
    """What is left of a run that was stopped in the middle of a step."""
    there = any((folder / "checkpoints").glob("step-*"))
    lost = "what came after the last checkpoint is computed again" if there else "there is no checkpoint yet"
    return f"stopped at once: {lost}. Go on with: regard resume {quote(str(folder))}"


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
            remove(path)


def engine_of(job: Job, world: World, reporter: Reporter) -> Engine:
    run = job.run
    return Engine(
        job.task,
        job.sources.splits["train"],
        job.sources.splits.get("held_out"),
        settings=run.train,
        optimizer={name: run.optimizer for name in job.task.parts},
        schedule=run.schedule,
        seed=run.seed,
        folder=job.folder,
        world=world,
        reporter=reporter,
    )


@contextmanager
def world_of(run: Run | None) -> Iterator[World]:
    settings = run.train if run is not None else None
    if settings is not None:
        check_precision(settings.precision, settings.device)
        check_threads(settings.threads)
        torch.set_num_threads(settings.threads or usual_threads())
    with joined(settings.device if settings is not None else "cpu") as world:
        yield world


def usual_threads() -> int:
    """What OMP_NUM_THREADS says, or all cores; under torchrun, which sets that to 1, the share of each process."""
    if "LOCAL_WORLD_SIZE" not in os.environ and os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return max((os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def check_threads(threads: int) -> None:
    """Far more than there are cores would only wait for each other, or break the machine."""
    most = 4 * (os.cpu_count() or 1)
    if threads > most:
        raise InputError(
            "so many threads are more than this machine can use",
            got=f"train.threads = {threads}",
            expected=f"at most {most}",
            fix=f"set train.threads={most // 4}, or leave it out",
        )


def check_precision(precision: str, device: str) -> None:
    """Half the width is refused where it would only be slow."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "there is no GPU that PyTorch can use", got="train.device = 'cuda'", fix="use train.device=cpu"
        )
    if precision == "bfloat16" and not (torch.cuda.is_bf16_supported() if device == "cuda" else half_width_on_cpu()):
        raise InputError(
            "this hardware cannot compute in bfloat16; it would be emulated, many times slower",
            got="train.precision = 'bfloat16'",
            fix="use train.precision=float32",
        )


def half_width_on_cpu() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def locked(folder: Path, world: World) -> Iterator[None]:
    """One run at a time in a folder: two would write over each other's checkpoints."""
    if not world.first or sys.platform == "win32":
        yield
        return
    import fcntl

    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(folder / ".lock", "w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another process trains this run right now", where=str(folder), fix="wait for it"
            ) from None
        except OSError as error:
            raise InputError("the run's folder cannot be locked", where=str(folder), got=str(error.strerror)) from None
        yield
