"""Models that a figure trains for minutes or hours, each in the folder of a run: an interrupted figure goes on with it.

The folders are those of `regard train`, in runs/ below the folder that the figure is computed in. One that is there
already serves if it was made with the same settings.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import InputError
from regard.folders import load
from regard.model import Model
from regard.run.settings import RunSettings, read_run
from regard.run.training import FILE, find_run, reopen_run, resume_run, train_run
from regard.train.metrics_log import METRICS, TIMING, read_lines
from regard.train.progress import make_reporter
from regard.train.runfile_text import run_file_text

RUNS = Path("runs")
COUNTED = 4  # steps whose operations are counted
TELLING = ("seed", "model", "train", "optimizer", "schedule")  # the rest may say where files are


def trained(name: str, run: RunSettings) -> Model:
    """What comes out of a run of these settings."""
    folder, path = RUNS / name, RUNS / f"{name}.toml"
    if not (folder / FILE).is_file():
        RUNS.mkdir(exist_ok=True)
        path.write_text(run_file_text(replace(run, folder=str(folder))), "utf-8")
    return finished(folder, path, run)


def by_recipe(name: str) -> Model:
    """What comes out of a recipe that ships."""
    path = find_run(name)
    return finished(RUNS / name, path, read_run(path))


def finished(folder: Path, path: Path, run: RunSettings) -> Model:
    """Begun, gone on with, or there already."""
    if (folder / FILE).is_file():
        check_alike(folder, run)
    if not (folder / "model").is_dir():
        if (folder / FILE).is_file():
            resume_run(folder, make_reporter(machine=False))
        else:
            train_run(path, (f"folder={folder}",), make_reporter(machine=False))
    return load(folder / "model")


def check_alike(folder: Path, run: RunSettings) -> None:
    """A folder may hold a run of the same name that someone tried with other settings."""
    there = read_run(folder / FILE)
    if odd := [name for name in TELLING if getattr(there, name) != getattr(run, name)]:
        raise InputError(
            "the run in this folder was made with other settings than the figure's",
            where=str(folder),
            got="another " + ", ".join(odd),
            fix="move the folder away, and the figure makes its own",
        )


def curve(name: str) -> list[tuple[float, float]]:
    """Minutes of training, and the loss on held-out data then. What was computed twice, after an interruption, counts
    once, and its time twice."""
    minutes: dict[int, float] = {}
    before = last = 0.0  # seconds until the last interruption, and since then
    for line in read_lines(RUNS / name / TIMING):
        if line["elapsed"] < last:
            before += last
        last = line["elapsed"]
        minutes[line["step"]] = (before + last) / 60
    measured = {
        line["step"]: line["held_out"]["loss"] for line in read_lines(RUNS / name / METRICS) if "held_out" in line
    }
    return [(minutes[step], loss) for step, loss in measured.items() if step in minutes]


def operations(name: str) -> float:
    """What training a run cost: floating-point operations of all matrix products, counted in some of its steps."""
    job = reopen_run(RUNS / name)
    data = job.sources.splits["train"]
    with FlopCounterMode(display=False) as counter:
        for step in range(COUNTED):
            batch = data.collate(data.rows(step).tolist(), step)
            for loss in job.task.losses(batch, step):
                torch.stack([term.sum for term in loss.terms.values()]).sum().backward()
    return counter.get_total_flops() / COUNTED * job.run.train.steps
