"""The run file that `regard init` prints for each task."""

from regard.errors import ConfigError
from regard.modalities.goals import GOALS
from regard.modalities.learning import Template
from regard.nn.config import near
from regard.train.runtext import write

from .settings import Run, Start


def all_templates() -> dict[str, Template]:
    return {name: row for goal in GOALS.values() for name, row in goal.templates.items()}


def run_of(row: Template) -> Run:
    start = Start(model=row.start) if row.start else None
    return Run(
        task=row.task,
        data=row.data,
        model=row.model,
        start=start,
        train=row.train,
        optimizer=row.optimizer,
        schedule=row.schedule,
    )


def template(task: str) -> str:
    """A run file for a task, every default written out and explained."""
    known = all_templates()
    if task not in known:
        raise ConfigError(f"there is no task {task!r}{near(task, known)}", expected=", ".join(known))
    return write(run_of(known[task]))
