"""The run file as a table of settings: one file is one run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.modalities.goals import GOALS, batch_maker, can_learn, goal_of
from regard.modalities.run_parts import Template
from regard.modalities.sources import SOURCES, source_of
from regard.nn.config import OF_PLUGIN, config_problems, not_above_zero, not_at_least, not_positive, refuse
from regard.nn.synonyms import MODEL_SYNONYMS, meant_in_model
from regard.train.optimizers import SGD, Adafactor, Adam, AdamW
from regard.train.runfile import (
    Kinds,
    Parts,
    PerPart,
    read_file,
    read_tables,
    required_setting,
    setting,
    settings_of_part,
)
from regard.train.runfile_synonyms import NEEDLESS_KEYS, keys_meant, remark_on
from regard.train.schedules import ConstantSchedule, CosineSchedule, InverseSqrtSchedule, LinearSchedule
from regard.train.settings import Train
from regard.zoo import FAMILIES, PRESETS, config_misfits, family_in, meant_by_name, near_names

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
    """A short test variant of the run, and the loss that it must reach."""

    set: tuple[str, ...] = setting((), 'settings to override, such as "train.steps=40"')
    factor: float = setting(0.9, "the last training loss must be below the first training loss times this factor")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "factor"))


@dataclass(frozen=True)
class Start:
    """Initial weights, and which of them are trained."""

    model: str = required_setting("initial weights: a shipped model, or a run, model or Hugging Face folder")
    part: str = setting("", "part of the task to load these weights into, frozen; empty: the trained model itself")
    learn: Literal["all", "head", "adapters"] = setting(
        "all", "trainable weights: all; head (only the new head); or adapters (new head and LoRA adapters)"
    )
    rank: int = setting(8, "rank of the LoRA adapters")
    alpha: float = setting(16.0, "LoRA alpha: the adapters' output is scaled by alpha / rank")
    where: tuple[str, ...] = setting(
        ("*.mixer.q", "*.mixer.v"), "names (patterns) of the linear layers that get adapters"
    )

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rank"), not_above_zero(self, "alpha"))


def model_keys(given: Mapping[str, Any]) -> list[str]:
    """The keys of a [model] table: those of the family that it names, or of any."""
    family = PRESETS.get(str(given.get("name")))
    return ["name", *(MODEL_SYNONYMS if family is None else [one.name for one in fields(FAMILIES[family].config)])]


@dataclass(frozen=True)
class RunSettings:
    task: TaskSettings = required_setting("the training task")
    data: DataSettings = required_setting("the training data")
    model: Mapping[str, Any] = setting(
        {}, "the model: a name listed by `regard models`, and any config keys to override", model_keys
    )
    start: Start | None = setting(
        None, "initial weights (fine-tuning); [model] then has no name, only config keys to override"
    )
    folder: str = setting("", "run folder for all output files; empty: runs/ and the name of the run file")
    seed: int = setting(
        0, "random seed for the weights, the data order and dropout; the same seed gives the same numbers"
    )
    train: Train = setting(Train(), "training: duration, evaluation, checkpoints and hardware")
    optimizer: Optimizers = setting(AdamW(), "optimizer")
    schedule: Schedules = setting(InverseSqrtSchedule(), "learning rate schedule")
    smoke: Smoke | None = setting(None, "short test variant of the run")

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
        return [f"data of kind {data.kind!r} cannot be used for the task {task.kind!r}, which requires {able}"]
    return [*goal_of(task).problems(task, data), *source_of(data).problems(task, data)]


def misfit_of_model(run: RunSettings) -> list[str]:
    """A named model that cannot learn the task, read the data, or be trained as it is asked for."""
    family = PRESETS.get(str(run.model.get("name"))) if run.model is not None else None
    wrong = []
    if family is not None:
        if run.task is not None and (problem := cannot_learn(family, run.task.kind, run.data)):
            wrong += [f"model.name: {problem}"]
        if run.train is not None and run.train.distribution == "experts" and not FAMILIES[family].has("experts"):
            wrong += [f"train.distribution = 'experts': {family} models have no experts; use 'ddp' or 'fsdp'"]
    parts = ("net",) if run.task is None else goal_of(run.task).parts
    for key, given in (("optimizer", run.optimizer), ("schedule", run.schedule)):
        if isinstance(given, Parts) and (odd := given.own.keys() - set(parts)):
            wrong += [f"{key}.{min(odd)}: the task does not have this part; it has {', '.join(parts)}"]
    sharded = [part for part in parts if isinstance(settings_of_part(run.optimizer, part), Adafactor)]
    if sharded and run.train is not None and run.train.distribution != "ddp":
        wrong += ["optimizer of kind 'adafactor' does not support sharding in PyTorch: use train.distribution = 'ddp'"]
    return wrong


def cannot_learn(family: str, task: str, data: Any) -> str:
    """Why a family cannot learn a task, or not from this data; empty where it can."""
    row = FAMILIES[family]
    if not can_learn(family, task):
        return f"a {family} model cannot be trained to {task}; expected a {learners(task, data)} model"
    if data is not None and not GOALS[task].can_read(row.takes, source_of(data).media):
        return f"a {family} model cannot read data of kind {data.kind!r}"
    return ""


def learners(task: str, data: Any) -> str:
    """The families that can learn a task from data of a kind, or of any where it is not known or not for this task."""
    media = source_of(data).media if data is not None and data.kind in batch_maker(task) else None
    able = {name: row.takes for name, row in FAMILIES.items() if can_learn(name, task)}
    return " or ".join(name for name in able if media is None or GOALS[task].can_read(able[name], media))


def misfit_of_start(run: RunSettings) -> list[str]:
    """[start] names the model, and its tokens; without it, [model] does."""
    if run.start is None:
        return [] if run.model is None else model_flaws(run.model, run)
    if run.start.part:
        given = () if run.task is None else goal_of(run.task).given
        wrong = [] if run.model is None else model_flaws(run.model, run)
        if run.task is not None and run.start.part not in given:
            able = ", ".join(given) or "none"
            wrong += [
                f"start.part: the task {run.task.kind!r} cannot load this part from a model; possible parts: {able}"
            ]
        plain = Start(model=run.start.model, part=run.start.part)
        wrong += [
            f"start.{name}: not allowed with start.part, whose weights are frozen"
            for name in ("learn", "rank", "alpha", "where")
            if getattr(run.start, name) != getattr(plain, name)
        ]
        return wrong
    wrong = (
        ["model.name: not allowed with [start], which already names the model"] if "name" in (run.model or {}) else []
    )
    if run.data is not None:
        wrong += source_of(run.data).preparation.not_with_start(run.data)
    return wrong


def model_flaws(model: Mapping[str, Any], run: RunSettings) -> list[str]:
    """What is wrong with single keys; if nothing is, with those that do not fit together or into this model."""
    if named := [key for key in model if "model.name" in keys_meant(f"model.{key}")]:
        return [f"model.{key}: unknown key; use model.name instead" for key in named]
    name = model.get("name")
    if not isinstance(name, str):
        return ["model has no name: use one listed by `regard models`, or set start.model"]
    if name not in PRESETS:
        of_plugin = "" if family_in(name) or near_names(name) else OF_PLUGIN
        return [f"model.name: unknown model {name!r}; {meant_by_name(name)}{of_plugin}"]
    kind = FAMILIES[PRESETS[name]].config
    changes = {key: value for key, value in model.items() if key != "name"}
    single = [
        f"model.{key}: {problem}"
        for key, value in changes.items()
        for problem in key_of_another_table(key, kind, run) or config_problems(kind, {key: value})
    ]
    return single or [f"{blamed(problem, changes)}: {problem}" for problem in config_misfits(name, changes)]


def key_of_another_table(key: str, kind: type, run: RunSettings) -> list[str]:
    """The problem of a key that no config of this kind has, and that means one of another table of this run, or none
    that a run file needs."""
    names = [one.name for one in fields(kind)]
    if key in names or meant_in_model(key, names):
        return []
    if key.lower() in NEEDLESS_KEYS:
        return [f"unknown key; not needed: {NEEDLESS_KEYS[key.lower()]}"]
    for meant in keys_meant(f"model.{key}"):
        table, _, name = meant.rpartition(".")
        if table in ("", "start"):
            return [f"unknown key; use {meant} instead{remark_on(key, meant)}"]
        settings = getattr(run, table, None) if table in ("task", "data", "train", "optimizer", "schedule") else None
        settings = settings.usual if isinstance(settings, Parts) else settings
        if settings is not None and name in {one.name for one in fields(settings)}:
            return [f"unknown key; use {meant} instead{remark_on(key, meant)}"]
    return []


def blamed(problem: str, changes: Mapping[str, Any]) -> str:
    """The key that a problem of several is told of: the first that the run file gives."""
    return next((f"model.{key}" for key in changes if re.search(rf"\b{re.escape(key)}\b", problem)), "model")


def read_run(path: Path, overrides: tuple[str, ...] = ()) -> RunSettings:
    """A run file, strictly; what it does not say of its training is as in its task's template."""
    return read_file(RunSettings, path, overrides, task_defaults)


def read_stored_run(path: Path, overrides: tuple[str, ...] = ()) -> RunSettings:
    """The run file of a run that was begun: every setting stands in it, and none comes from a template."""
    return read_file(RunSettings, path, overrides)


def settings_of(tables: dict[str, Any], where: str) -> RunSettings:
    """The same from tables that were given in Python; ``where`` names them in errors."""
    return read_tables(RunSettings, tables, {}, where, (), task_defaults)


def task_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """How a task is usually trained: its template for this kind of data, and for weights to start from."""
    row = alike_template(kind_given(data, "task"), kind_given(data, "data"), "start" in data)
    return {} if row is None else {key: getattr(row, key) for key in ("train", "optimizer", "schedule")}


def alike_template(task: str, kind: str, starts: bool) -> Template | None:
    """The task's template for this kind of data and for weights to start from; else the one most like it."""
    templates = list(GOALS[task].templates.values()) if task in GOALS else []
    alike = [row for row in templates if row.data.kind == kind] or templates
    alike = [row for row in alike if bool(row.start) == starts] or alike
    return alike[0] if alike else None


def kind_given(data: Mapping[str, Any], key: str) -> str:
    """The kind of a table, which may stand for all of it."""
    given = data.get(key)
    name = given.get("kind") if isinstance(given, Mapping) else given
    return name if isinstance(name, str) else ""
