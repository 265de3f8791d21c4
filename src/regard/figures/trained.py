"""Models that a figure trains for minutes or hours, each in the folder of a run: an interrupted figure goes on with it.

The folders are those of `regard train`, in runs/ below the folder that the figure is computed in.
"""

from dataclasses import replace
from pathlib import Path

from regard.model import Model, load
from regard.run.settings import Run
from regard.run.start import FILE, find_run, resume, train
from regard.train.progress import reporter
from regard.train.runtext import write

RUNS = Path("runs")


def trained(name: str, run: Run) -> Model:
    """What comes out of a run of these settings."""
    folder, path = RUNS / name, RUNS / f"{name}.toml"
    if not (folder / FILE).is_file():
        RUNS.mkdir(exist_ok=True)
        path.write_text(write(replace(run, folder=str(folder))), "utf-8")
    return finished(folder, path)


def by_recipe(name: str) -> Model:
    """What comes out of a recipe that ships."""
    return finished(RUNS / name, find_run(name))


def finished(folder: Path, path: Path) -> Model:
    """Begun, gone on with, or there already."""
    if not (folder / "model").is_dir():
        if (folder / FILE).is_file():
            resume(folder, reporter(machine=False))
        else:
            train(path, (f"folder={folder}",), reporter(machine=False))
    return load(folder / "model")
