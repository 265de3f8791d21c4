"""Every task and every kind of data, by little runs: trained, measured, and resumed to the same end."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.folders import load
from regard.modalities.goals import GOALS, batch_maker, can_learn
from regard.modalities.run_parts import RunPlan
from regard.modalities.sources import SOURCES
from regard.run.settings import read_run
from regard.run.templates import template_run
from regard.run.training import resume_run, train_run
from regard.train.progress import SilentReporter
from regard.train.runfile_text import run_file_text
from regard.zoo import FAMILIES

from .equality import same
from .reach import data_for, little_data, run_text, trained
from .report import BrokenError, Contract, NothingError, demand

STEPS = 4
SAMPLED = 16  # rows of a split that are read, and the last
NO_EXAMPLE = "the data has no example: define one with DataKind(example=...)"


def learner_of(task: str) -> str:
    """A family that can learn a task from data that can write an example of itself."""
    able = [name for name in FAMILIES if can_learn(name, task)]
    demand(bool(able), f"no model family supports the task {task!r}, and the task declares no learners")
    for name in able:
        kinds = data_for(task, FAMILIES[name])
        if kinds and SOURCES[kinds[0]].example is not None:
            return name
    known = ", ".join(batch_maker(task)) or "none"
    raise BrokenError(f"no data for the task ({known}) fits the inputs of {', '.join(able)} and has an example")


def templates_read(task: str) -> None:
    demand(bool(GOALS[task].templates), "the task has no template, so `regard init` cannot print a run file")
    with tempfile.TemporaryDirectory() as folder:
        for name, template in GOALS[task].templates.items():
            file = Path(folder) / f"{name}.toml"
            file.write_text(run_file_text(template_run(template)), "utf-8")
            found = read_run(file)
            demand(found.task == template.task, f"the run file {name} is read back as {found.task}")
            demand(found.data == template.data, f"the run file {name} is read back as {found.data}")


def begun_and_trained(task: str) -> None:
    trained(learner_of(task), task)


def resumed(family: str, task: str) -> None:
    """From the checkpoint in the middle to the same end, to the bit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(run_text(family, task, little_data(family, task), folder, STEPS), "utf-8")
        whole = train_run(file, (), SilentReporter()).folder
        before = load(whole / "model").state_dict()
        last = max(whole.glob("checkpoints/step-*"), key=lambda path: int(path.name.removeprefix("step-")))
        demand(last.name.endswith(str(STEPS)), f"the last checkpoint is {last.name}, expected that of step {STEPS}")
        shutil.rmtree(last)
        shutil.rmtree(whole / "model")
        resume_run(whole, SilentReporter())
        after = load(whole / "model").state_dict()
    for key, x in before.items():
        gap = float((after[key] - x).abs().max()) if x.numel() else 0.0
        demand(
            torch.equal(after[key], x), f"after resuming from the middle, {key} differs by up to {gap:.3g}, expected 0"
        )


def split_alike(task: str) -> None:
    """Losses are sums, and counts say what they are divided by: however a batch is split, its loss is the same."""
    if GOALS[task].in_batch:
        raise NothingError("the loss compares the rows of a batch with each other")
    family, found = learner_of(task), []
    for split in (1, 2):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "run.toml"
            file.write_text(run_text(family, task, little_data(family, task), Path(name), 1), "utf-8")
            settings = ("train.save=1", f"train.split={split}", *dropout_off(family))
            folder = train_run(file, settings, SilentReporter()).folder
            first = json.loads((folder / "metrics.jsonl").read_text("utf-8").splitlines()[0])
            found.append({key: x for key, x in first.items() if isinstance(x, float)})
    whole, halves = found
    for key, x in whole.items():
        near = abs(halves.get(key, 0.0) - x) <= 1e-4 * max(abs(x), 1e-3)
        demand(near, f"{key} of the first step is {x:.6g}, and {halves.get(key, 0.0):.6g} with the batch in two parts")


def dropout_off(family: str) -> list[str]:
    """Each part of a batch would draw its own."""
    return [
        f"model.{one.name}=0.0"
        for one in fields(FAMILIES[family].config)
        if "drop" in one.name and one.type in ("float", float)
    ]


def goal_contracts(task: str) -> Iterator[Contract]:
    yield Contract("its run files are read back unchanged", partial(templates_read, task))
    yield Contract("a run can be trained, evaluated, loaded and used", partial(begun_and_trained, task))
    yield Contract("splitting a batch does not change its loss", partial(split_alike, task))
    yield Contract(
        "a resumed run gives the same result as an uninterrupted one", lambda: resumed(learner_of(task), task)
    )


def opened(name: str, folder: Path) -> Any:
    row = SOURCES[name]
    require_files(name)
    demand(row.example is not None, NO_EXAMPLE)
    assert row.example is not None
    known = {one.name for one in fields(row.settings)}
    given = row.example(folder)
    demand(given.keys() <= known, f"the example contains unknown settings: {', '.join(sorted(given.keys() - known))}")
    return given


def example_written(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened(name, Path(folder))


def rows_read(name: str) -> None:
    """By the run of a task that it serves: every row twice alike, and the same when it is opened again."""
    require_example(name)
    task, family = server_of(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = folder / "run.toml"
        file.write_text(run_text(family, task, name, folder, 2), "utf-8")
        run = read_run(file)
        config = FAMILIES[family].example()
        plan = RunPlan(run.task, run.data, 0, 2, folder, family, config, {}, None, load)
        found, again = (SOURCES[name].open(plan).splits for _ in range(2))
        demand("train" in found, f"no train split, only {', '.join(found)}")
        for split, rows in found.items():
            demand(len(rows) > 0, f"the {split} split has no rows")
            demand(bool(str(rows.where(0))), f"the {split} split does not report the location of its first row")
            demand(split in again, f"the {split} split is missing when the data is opened again")
            others = again[split]
            told = f"the {split} split has {len(rows)} rows, and {len(others)} when the data is opened again"
            demand(len(rows) == len(others), told)
            for i in sorted({*range(0, len(rows), max(len(rows) // SAMPLED, 1)), len(rows) - 1}):
                row = rows[i]
                demand(same(row, rows[i]), f"row {i} of the {split} split differs each time it is read")
                demand(same(row, others[i]), f"row {i} of the {split} split differs each time the data is opened")


def require_files(name: str) -> None:
    if SOURCES[name].describe:
        raise NothingError("data of this kind can only be given in Python, not as files")


def require_example(name: str) -> None:
    require_files(name)
    demand(SOURCES[name].example is not None, f"not checked: {NO_EXAMPLE}")


def server_of(name: str) -> tuple[str, str]:
    """A task that this kind of data serves, and a family that learns it."""
    for task in GOALS:
        if name in batch_maker(task):
            for family, row in FAMILIES.items():
                if can_learn(family, task) and GOALS[task].can_read(row.takes, SOURCES[name].media):
                    return task, family
    media = ", ".join(SOURCES[name].media)
    raise BrokenError(
        f"no task uses this data with a model family for {media}: declare tasks with DataKind(serves=...)"
    )


def served(name: str) -> None:
    require_example(name)
    task, family = server_of(name)
    trained(family, task, name)


def data_contracts(name: str) -> Iterator[Contract]:
    yield Contract("it has an example", partial(example_written, name))
    yield Contract("its rows can be read, with the same result each time", partial(rows_read, name))
    yield Contract("a run on it can be trained, evaluated, loaded and used", partial(served, name))
