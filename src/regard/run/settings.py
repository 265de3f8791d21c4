"""The run file as a table of settings: one file is one run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.modalities.goals import GOALS, batch_maker, can_learn, goal_of
from regard.modalities.sources import SOURCES, source_of
from regard.nn.config import closest_name, config_problems, not_above_zero, not_at_least, not_positive, refuse
from regard.train.optimizers import SGD, Adafactor, Adam, AdamW
from regard.train.runfile import Kinds, Parts, PerPart, read_file, required_setting, setting, settings_of_part
from regard.train.schedules import ConstantSchedule, CosineSchedule, InverseSqrtSchedule, LinearSchedule
from regard.train.settings import Train
from regard.zoo import FAMILIES, PRESETS, config_misfits

if TYPE_CHECKING:
    TaskSettings = Any
    DataSettings = Any
    Optimizers = AdamW | Adam | SGD | Adafactor | Parts
    Schedules = InverseSqrtSchedule | CosineSchedule | LinearSchedule | ConstantSchedule | Parts
else:
    Optimizers = PerPart(AdamW | Adam | SGD | Adafactor)
    Schedules = PerPart(InverseSqrtSchedule | CosineSchedule | LinearSchedule | ConstantSchedule)
    TaskSettings = Kinds(lambda: iter(GOALS), lambda name: GOALS[name].settings)
    DataSettings = Kinds(lambda: iter(SOURCES), lambda name: SOURCES[name].settings)


@dataclass(frozen=True)
class Smoke:
    """A short variant for tests, and what it must reach."""

    set: tuple[str, ...] = setting((), 'what is different, such as "train.steps=40"')
    factor: float = setting(0.9, "the last training loss must be below the first one times this")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "factor"))


@dataclass(frozen=True)
class Start:
    """Weights to begin with, and which of them learn."""

    model: str = required_setting("a shipped model's name, or the folder of a run, of a model, or of Hugging Face")
    part: str = setting("", "a part of the task that these weights are for, frozen; empty: the model that is learned")
    learn: Literal["all", "head", "adapters"] = setting(
        "all", "all weights; or head: only what that model lacked; or adapters: that, and LoRA beside some linear maps"
    )
    rank: int = setting(8, "of the adapters")
    alpha: float = setting(16.0, "of the adapters: what they add is multiplied by alpha / rank")
    where: tuple[str, ...] = setting(("*.mixer.q", "*.mixer.v"), "names of the linear maps that have adapters")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rank"), not_above_zero(self, "alpha"))


@dataclass(frozen=True)
class RunSettings:
    task: TaskSettings = required_setting("what is learned")
    data: DataSettings = required_setting("what it is learned from")
    model: Mapping[str, Any] = setting({}, "a name that `regard models` lists, and any keys of its config")
    start: Start | None = setting(None, "weights to begin with; [model] then has no name, only what is different")
    folder: str = setting("", "where the run's files go; empty: runs/ and the run file's name")
    seed: int = setting(0, "of the weights, the order of the data and dropout: the same seed, the same numbers")
    train: Train = setting(Train(), "how long, and what happens on the way")
    optimizer: Optimizers = setting(AdamW(), "how weights follow their gradients")
    schedule: Schedules = setting(InverseSqrtSchedule(), "the rate as a function of the step")
    smoke: Smoke | None = setting(None, "a short variant that tests run")

    def __post_init__(self) -> None:
        refuse(
            not_at_least(0, self, "seed"),
            misfit_of_data(self.task, self.data),
            misfit_of_model(self),
            misfit_of_start(self),
        )


def misfit_of_data(task: Any, data: Any) -> list[str]:
    """A table that could not be read is None."""
    if task is None or data is None:
        return []
    if data.kind not in (served := batch_maker(task.kind)):
        able = " or ".join(map(repr, served))
        return [f"data of kind {data.kind!r} cannot serve the task {task.kind!r}, which takes {able}"]
    return [*goal_of(task).problems(task, data), *source_of(data).problems(task, data)]


def misfit_of_model(run: RunSettings) -> list[str]:
    """A named model that cannot learn the task, read the data, or be trained as it is asked for."""
    family = PRESETS.get(str(run.model.get("name"))) if run.model is not None else None
    wrong = []
    if family is not None:
        if run.task is not None and (problem := cannot_learn(family, run.task.kind, run.data)):
            wrong += [f"model.name: {problem}"]
        if run.train is not None and run.train.distribution == "experts" and not FAMILIES[family].has("experts"):
            wrong += [f"train.distribution = 'experts': a {family} has none; use 'ddp' or 'fsdp'"]
    parts = ("net",) if run.task is None else goal_of(run.task).parts
    for key, given in (("optimizer", run.optimizer), ("schedule", run.schedule)):
        if isinstance(given, Parts) and (odd := given.own.keys() - set(parts)):
            wrong += [f"{key}.{min(odd)}: the task has no such part; it has {', '.join(parts)}"]
    sharded = [part for part in parts if isinstance(settings_of_part(run.optimizer, part), Adafactor)]
    if sharded and run.train is not None and run.train.distribution != "ddp":
        wrong += ["optimizer of kind 'adafactor' cannot be sharded by PyTorch: use train.distribution = 'ddp'"]
    return wrong


def cannot_learn(family: str, task: str, data: Any) -> str:
    """Why a family cannot learn a task, or not from this data; empty where it can."""
    row = FAMILIES[family]
    if not can_learn(family, task):
        return f"a {family} cannot {task}; it takes a model of the {learners(task, data)} family"
    if data is not None and set(row.takes) != set(source_of(data).media):
        return f"a {family} cannot read data of kind {data.kind!r}"
    return ""


def learners(task: str, data: Any) -> str:
    """The families that can learn a task from data of a kind, or of any where it is not known."""
    media = None if data is None else set(source_of(data).media)
    able = [name for name, row in FAMILIES.items() if can_learn(name, task) and media in (None, set(row.takes))]
    return " or ".join(able)


def misfit_of_start(run: RunSettings) -> list[str]:
    """[start] names the model, and its tokens; without it, [model] does."""
    if run.start is None:
        return [] if run.model is None else model_flaws(run.model)
    if run.start.part:
        given = () if run.task is None else goal_of(run.task).given
        wrong = [] if run.model is None else model_flaws(run.model)
        if run.task is not None and run.start.part not in given:
            able = ", ".join(given) or "none"
            wrong += [f"start.part: the task {run.task.kind!r} takes no such part from another model; it takes {able}"]
        return wrong
    wrong = ["model.name: the model is that of [start]"] if "name" in (run.model or {}) else []
    if run.data is not None:
        wrong += source_of(run.data).preparation.not_with_start(run.data)
    return wrong


def model_flaws(model: Mapping[str, Any]) -> list[str]:
    """What is wrong with single keys; if nothing is, with those that do not fit together or into this model."""
    name = model.get("name")
    if not isinstance(name, str):
        return ["model has no name: give one that `regard models` lists, unless [start] names earlier weights"]
    if name not in PRESETS:
        return [
            f"model.name: no model is called {name!r}{closest_name(name, PRESETS)}; `regard models` lists all of them"
        ]
    kind = FAMILIES[PRESETS[name]].config
    changes = {key: value for key, value in model.items() if key != "name"}
    single = [
        f"model.{key}: {problem}" for key, value in changes.items() for problem in config_problems(kind, {key: value})
    ]
    return single or [f"{blamed(problem, changes)}: {problem}" for problem in config_misfits(name, changes)]


def blamed(problem: str, changes: Mapping[str, Any]) -> str:
    """The key that a problem of several is told of: the first that the run file gives."""
    return next((f"model.{key}" for key in changes if re.search(rf"\b{re.escape(key)}\b", problem)), "model")


def read_run(path: Path, overrides: tuple[str, ...] = ()) -> RunSettings:
    """A run file, strictly; what it does not say of its task's template stays as it is by default."""
    return read_file(RunSettings, path, overrides)
