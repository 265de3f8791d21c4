"""The table of goals: the [task] table of a run file names one."""

from typing import Any

from regard.tables import Table
from regard.zoo import FAMILIES

from .run_parts import DataKind, Goal
from .sources import SOURCES

GOALS = Table[Goal](
    "task",
    {
        "translate": "regard.modalities.text.goals.translate:GOAL",
        "language": "regard.modalities.text.goals.language:GOAL",
        "describe": "regard.modalities.captions.goal:GOAL",
        "match": "regard.modalities.captions.match_goal:GOAL",
        "classify": "regard.modalities.labels.goal:GOAL",
        "tag": "regard.modalities.text.goals.tag:GOAL",
        "answer": "regard.modalities.text.goals.answer:GOAL",
        "masked": "regard.modalities.text.goals.masked:GOAL",
        "spans": "regard.modalities.text.goals.spans:GOAL",
        "similar": "regard.modalities.text.goals.similar:GOAL",
        "detect": "regard.modalities.boxes.goal:GOAL",
        "forecast": "regard.modalities.series.goal:GOAL",
        "imitate": "regard.modalities.drawing.goals.imitate:GOAL",
        "draw": "regard.modalities.drawing.goals.draw:GOAL",
        "reconstruct": "regard.modalities.drawing.goals.reconstruct:GOAL",
    },
)


def goal_of(task: Any) -> Goal:
    """The row of a [task] table."""
    return GOALS[task.kind]


def task_model_names(task: Any) -> list[str]:
    """The models that a [task] table names, such as a teacher."""
    return [name for key in goal_of(task).models if (name := getattr(task, key))]


def batch_maker(task: str) -> dict[str, str]:
    """Who makes a goal's batches of each kind of data: those that the goal names, and those that name the goal."""
    rows = {name: row for name, row in SOURCES.rows.items() if isinstance(row, DataKind)}  # the library's name no goal
    return {**GOALS[task].batches} | {name: row.serves[task] for name, row in rows.items() if task in row.serves}


def can_learn(family: str, task: str) -> bool:
    return task in FAMILIES[family].tasks or family in GOALS[task].learners
