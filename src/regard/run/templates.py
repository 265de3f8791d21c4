"""The run file that `regard init` prints for each task."""

from regard.errors import ConfigError
from regard.modalities.goals import GOALS
from regard.modalities.run_parts import Template
from regard.nn.config import closest_name
from regard.train.runfile_text import run_file_text
from regard.zoo import PRESETS

from .settings import RunSettings, Start
from .sizes import other_sizes


def all_templates() -> dict[str, Template]:
    return {name: row for goal in GOALS.values() for name, row in goal.templates.items()}


def template_run(row: Template) -> RunSettings:
    start = Start(model=row.start) if row.start else None
    return RunSettings(
        task=row.task,
        data=row.data,
        model=row.model,
        start=start,
        train=row.train,
        optimizer=row.optimizer,
        schedule=row.schedule,
    )


def run_template(task: str) -> str:
    """A run file for a task, every default written out and explained."""
    known = all_templates()
    if task not in known:
        raise ConfigError(f"unknown task {task!r}{closest_name(task, known)}", expected=", ".join(known))
    row = known[task]
    text, name = run_file_text(template_run(row)), row.model.get("name", "")
    if sizes := other_sizes(name, row.model) if name else []:
        told = f"# a {PRESETS[name]} model, smaller or larger than {name}: {', '.join(sizes)} below are its own"
        text = text.replace("\n[model]\n", f"\n{told}\n[model]\n")
    return text
