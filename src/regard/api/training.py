"""``regard.train`` and its kin: a run from Python is that of the command line, in the same folder, to the same bit."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from regard.data.given_datasets import datasets_given
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.folders import load
from regard.modalities.sources import SOURCES
from regard.model import Model
from regard.nn.arguments import explain_arguments
from regard.run.check import CheckReport, check_settings
from regard.run.evaluation import EvaluationResult, evaluate_run
from regard.run.settings import RunSettings
from regard.run.training import FILE, GIVEN, RunOutcome, begin_run, read_begun, resume_run
from regard.train.metrics_log import Journal
from regard.train.progress import SilentReporter, make_reporter
from regard.train.runfile_text import override_text

from .asked import AskedRun, explain_changes, explain_settings, run_asked, settings_asked
from .callbacks import CallbackReporter, Callbacks
from .elsewhere import TEST, check_use, datasets_among, settings_of_given
from .stored import store_rows

NOTHING: Mapping[str, Any] = {}
NO_CALLBACKS: Callbacks = {}


class History(Sequence[Mapping[str, Any]]):
    """The lines of a run's ``metrics.jsonl``: training losses, and metrics on held-out data."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self.lines = tuple(lines)

    def __getitem__(self, i: Any) -> Any:
        return self.lines[i]

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        last = self.lines[-1]["step"] if self.lines else 0
        return f"History({len(self)} lines up to step {last}: {', '.join(self.names()) or 'nothing'})"

    def names(self) -> list[str]:
        """What was recorded: "loss" of training, "held_out.loss" and others."""
        return list(dict.fromkeys(name for line in self.lines for name in flat(line) if name not in ("step", "epoch")))

    def curve(self, name: str) -> list[tuple[int, float]]:
        """One of ``names()`` as pairs of step and value."""
        found = [(int(line["step"]), float(values[name])) for line in self.lines if name in (values := flat(line))]
        if not found:
            raise InputError("the run has no such metric", got=name, expected=", ".join(self.names()))
        return found


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of metrics with one number for each name; what is not finite is left out."""
    found: dict[str, float] = {}
    for name, value in line.items():
        inner = {f"{name}.{key}": x for key, x in value.items()} if isinstance(value, Mapping) else {name: value}
        found |= {key: x for key, x in inner.items() if x is not None}
    return found


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult:
    """A trained model, its curves, and the folder that holds everything."""

    model: Model | None  # None if the run was stopped: resume it
    history: History
    folder: Path
    step: int
    finished: str  # why the run ended; empty if it was stopped
    goal: str  # metric that selects the best checkpoint; "-" before it: the largest value is the best

    @property
    def metrics(self) -> dict[str, float]:
        """The last metrics on held-out data."""
        lines = [line["held_out"] for line in self.history if "held_out" in line]
        return dict(lines[-1]) if lines else {}

    def __repr__(self) -> str:
        reached = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items() if value is not None)
        ended = self.finished or "stopped: regard.resume(folder) continues"
        return (
            f"TrainingResult(step {self.step}; {ended}; held out: {reached or 'not evaluated'}; {str(self.folder)!r})"
        )


@explain_settings
def train(
    run: str | PathLike[str] | Mapping[str, Any] = "",
    data: Any = None,
    *,
    task: str | Mapping[str, Any] = "",
    model: str | Mapping[str, Any] = "",
    start: str | Mapping[str, Any] = "",
    folder: str | PathLike[str] = "",
    seed: int | None = None,
    settings: Mapping[str, Any] = NOTHING,
    callbacks: Callbacks = NO_CALLBACKS,
    progress: bool = True,
) -> TrainingResult:
    """Train a model, as ``regard train`` does.

    >>> result = regard.train("classify", data=[("good", "yes"), ("bad", "no")] * 50, folder="runs/mine")
    >>> result.model.classify("good").label

    ``run``: a run file, a recipe's name, a dict with the tables of a run file, or a task of ``regard init`` such as
    "classify". ``data``: files as in a run file, or rows in memory (lists, arrays, pandas or Hugging Face tables, a
    torch dataset); a dict with "train", "held_out", "test" and other settings of [data] gives several.
    ``task``, ``model`` and ``start``: a name, or a table. ``settings``: any others by their names in a run file, as in
    {"train.steps": 500, "optimizer.rate": 3e-4}. ``callbacks``: functions by event (step, evaluated, saved, finished),
    called with a ``TrainingEvent``; raising ``StopTraining`` ends the run with a checkpoint.

    Data in memory is written to the run folder, so resuming needs nothing else; a torch dataset has to be given again.
    """
    asked = run_asked(run, data, task=task, model=model, start=start, folder=folder, seed=seed, settings=settings)
    reporter = CallbackReporter(make_reporter(False) if progress else SilentReporter(), callbacks)
    with random_numbers_kept(), datasets_given(asked.given.datasets), closing(reporter):
        with stored_settings(asked, asked.folder) as settled:
            ended = begin_run(settled, asked.folder, asked.base, reporter, reporter.asked_to_stop)
        return result_of(ended, reporter)


@explain_changes
def resume(
    folder: str | PathLike[str],
    data: Any = None,
    *,
    settings: Mapping[str, Any] = NOTHING,
    callbacks: Callbacks = NO_CALLBACKS,
    progress: bool = True,
) -> TrainingResult:
    """Resume a run that was stopped, as ``regard resume`` does: the result is the same as without the interruption.
    ``data``: the torch dataset of a run that was given one, or a dict of them by split. ``settings`` to change, which
    are kept in the folder: {"train.steps": 2000} makes a longer run of it, also of one that is finished."""
    reporter = CallbackReporter(make_reporter(False) if progress else SilentReporter(), callbacks)
    if data is not None and (Path(folder) / FILE).is_file():
        fix = "leave data out: a run goes on with the data that it began with, which its folder names"
        check_use(read_begun(Path(folder)).data, data, fix)
    with random_numbers_kept(), datasets_given(by_split(data)), closing(reporter):
        changes = tuple(override_text(key, value) for key, value in settings.items())
        return result_of(resume_run(Path(folder), reporter, reporter.asked_to_stop, changes), reporter)


@explain_settings
def check(
    run: str | PathLike[str] | Mapping[str, Any] = "",
    data: Any = None,
    *,
    task: str | Mapping[str, Any] = "",
    model: str | Mapping[str, Any] = "",
    start: str | Mapping[str, Any] = "",
    folder: str | PathLike[str] = "",
    seed: int | None = None,
    settings: Mapping[str, Any] = NOTHING,
) -> CheckReport:
    """Check a run before training, as ``regard check`` does: the arguments are those of ``regard.train``. Nothing is
    written where the run will be."""
    asked = run_asked(run, data, task=task, model=model, start=start, folder=folder, seed=seed, settings=settings)
    with random_numbers_kept(), datasets_given(asked.given.datasets), tempfile.TemporaryDirectory() as place:
        with stored_settings(asked, Path(place) / "run") as settled:
            return check_settings(settled, asked.folder, asked.base)


@explain_arguments
def evaluate(
    run: "str | PathLike[str] | TrainingResult",
    split: str = "held_out",
    *,
    data: Any = None,
    decoding: Decoding | None = None,
) -> EvaluationResult:
    """Evaluate a run's model on one of its splits, as ``regard evaluate`` does: the final model, or of an unfinished
    run the best checkpoint so far. ``data``: other data than the run's own, as ``regard.train`` takes it, read with the
    run's own tokenizer or preparation and its labels; or the torch dataset of a run that was given one."""
    folder = run.folder if isinstance(run, TrainingResult) else Path(run)
    if data is not None and not datasets_among(data) and (folder / FILE).is_file():
        with random_numbers_kept(), tempfile.TemporaryDirectory() as place:
            tested = settings_of_given(read_begun(folder).data, data, split, Path(place) / GIVEN)
            return evaluate_run(folder, TEST, SilentReporter(), decoding, tested)
    if data is not None and (folder / FILE).is_file():
        check_use(read_begun(folder).data, data, "give rows or files, as regard.train takes them for this task")
    with random_numbers_kept(), datasets_given(by_split(data)):
        return evaluate_run(folder, split, SilentReporter(), decoding)


@contextmanager
def stored_settings(asked: AskedRun, folder: Path) -> Iterator[RunSettings]:
    """The settings, with data in memory written to the run's folder. If the run does not begin, nothing is left."""
    place, kind = folder / GIVEN, asked.tables.get("data", {}).get("kind", "")
    if not asked.given.rows:
        yield settings_asked(asked, {})
        return
    if (folder / FILE).exists() or (folder.exists() and {x.name for x in folder.iterdir()} - {GIVEN}):
        fix = "choose another: folder=..."
        if (folder / FILE).exists():
            fix = f"regard.resume({str(folder)!r}) continues this run; for a new one, choose another: folder=..."
        raise InputError("the folder is not empty", where=str(folder), fix=fix)
    shutil.rmtree(place, ignore_errors=True)  # of an attempt that was killed
    try:
        yield settings_asked(asked, store_rows(SOURCES[kind], asked.given.rows, asked.tables["data"], place))
    finally:
        if not (folder / FILE).exists():
            shutil.rmtree(place, ignore_errors=True)
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()


def by_split(data: Any) -> Mapping[str, Any]:
    """Datasets of splits; one alone is that of train."""
    return {} if data is None else data if isinstance(data, Mapping) else {"train": data}


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """A run draws its numbers from its own seed; afterwards those of the caller go on where they were."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def closing(reporter: CallbackReporter) -> Iterator[None]:
    try:
        yield
    finally:
        reporter.close()


def result_of(ended: RunOutcome, reporter: CallbackReporter) -> TrainingResult:
    if ended.finished:
        reporter.finished(ended.step, ended.folder)
    model = load(ended.folder) if ended.finished else None
    history = History(Journal(ended.folder).lines())
    return TrainingResult(model, history, ended.folder, ended.step, ended.finished, ended.goal)
