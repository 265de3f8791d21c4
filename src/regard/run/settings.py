"""The run file as a table of settings: one file is one run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.nn.config import below, flaws, near, not_above_zero, not_positive, refuse
from regard.train.optimizers import SGD, Adafactor, Adam, AdamW
from regard.train.runfile import read_file, required, setting
from regard.train.schedules import Constant, Cosine, InverseSqrt, Linear
from regard.train.settings import Train
from regard.zoo import FAMILIES, PRESETS, misfits

from .goals import Goal
from .inputs import Data, TextFiles, Vocabulary


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

    model: str = required("a shipped model's name, or the folder of a run, of a model, or of Hugging Face")
    learn: Literal["all", "head", "adapters"] = setting(
        "all", "all weights; or head: only what that model lacked; or adapters: that, and LoRA beside some linear maps"
    )
    rank: int = setting(8, "of the adapters")
    alpha: float = setting(16.0, "of the adapters: what they add is multiplied by alpha / rank")
    where: tuple[str, ...] = setting(("*.mixer.q", "*.mixer.v"), "names of the linear maps that have adapters")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rank"), not_above_zero(self, "alpha"))


@dataclass(frozen=True)
class Run:
    task: Goal = required("what is learned")
    data: Data = required("what it is learned from")
    model: Mapping[str, Any] = setting({}, "a name that `regard models` lists, and any keys of its config")
    start: Start | None = setting(None, "weights to begin with; [model] then has no name, only what is different")
    folder: str = setting("", "where the run's files go; empty: runs/ and the run file's name")
    seed: int = setting(0, "of the weights, the order of the data and dropout: the same seed, the same numbers")
    train: Train = setting(Train(), "how long, and what happens on the way")
    optimizer: AdamW | Adam | SGD | Adafactor = setting(AdamW(), "how weights follow their gradients")
    schedule: InverseSqrt | Cosine | Linear | Constant = setting(InverseSqrt(), "the rate as a function of the step")
    smoke: Smoke | None = setting(None, "a short variant that tests run")

    def __post_init__(self) -> None:
        wrong = below(0, self, "seed")
        if self.task is not None and self.data is not None and self.data.kind not in SERVES[self.task.kind]:
            served = " or ".join(map(repr, SERVES[self.task.kind]))
            wrong += [f"data of kind {self.data.kind!r} cannot serve the task {self.task.kind!r}, which takes {served}"]
        family = PRESETS.get(str(self.model.get("name"))) if self.model is not None else None
        if self.task is not None and family is not None and family not in LEARNS[self.task.kind]:
            able = learners(self.task.kind, None if self.data is None else self.data.kind)
            wrong += [f"model.name: a {family} cannot {self.task.kind}; it takes a model of the {able} family"]
        elif self.data is not None and family is not None and sees(family) != (self.data.kind in SEEN):
            wrong += [f"model.name: a {family} cannot read data of kind {self.data.kind!r}"]
        if getattr(self.task, "adversarial", 0) and self.data is not None and self.data.kind not in SEEN:
            wrong += [f"task.adversarial: data of kind {self.data.kind!r} has no pixels that could be made harder"]
        if isinstance(self.data, TextFiles) and self.task is not None:
            if self.task.kind == "masked" and self.data.unit == "text":
                wrong += ["data.unit = 'text' cannot serve the task 'masked', which hides words of lines"]
            if self.task.kind == "spans" and self.data.unit == "line":
                wrong += ["data.unit = 'line' cannot serve the task 'spans': set data.unit = 'text'"]
        spread = self.train is not None and self.train.distribution == "experts"
        if spread and family is not None and family not in ROUTING:
            wrong += [f"train.distribution = 'experts': a {family} has none; use 'ddp' or 'fsdp'"]
        if isinstance(self.optimizer, Adafactor) and self.train is not None and self.train.distribution != "ddp":
            wrong += ["optimizer of kind 'adafactor' cannot be sharded by PyTorch: use train.distribution = 'ddp'"]
        if self.start is not None:
            wrong += ["model.name: the model is that of [start]"] if "name" in (self.model or {}) else []
            if getattr(self.data, "vocabulary", Vocabulary()) != Vocabulary():
                wrong += ["data.vocabulary: the tokens are those of the model of [start]"]
            refuse(wrong)
        else:
            refuse(wrong, [] if self.model is None else model_flaws(self.model))


def model_flaws(model: Mapping[str, Any]) -> list[str]:
    """What is wrong with single keys; if nothing is, with those that do not fit together or into this model."""
    name = model.get("name")
    if not isinstance(name, str):
        return ["model has no name: give one that `regard models` lists, unless [start] names earlier weights"]
    if name not in PRESETS:
        return [f"model.name: no model is called {name!r}{near(name, PRESETS)}; `regard models` lists all of them"]
    kind = FAMILIES[PRESETS[name]].config
    changes = {key: value for key, value in model.items() if key != "name"}
    single = [f"model.{key}: {problem}" for key, value in changes.items() for problem in flaws(kind, {key: value})]
    return single or [f"{blamed(problem, changes)}: {problem}" for problem in misfits(name, changes)]


def blamed(problem: str, changes: Mapping[str, Any]) -> str:
    """The key that a problem of several is told of: the first that the run file gives."""
    return next((f"model.{key}" for key in changes if re.search(rf"\b{re.escape(key)}\b", problem)), "model")


SEERS = (  # families that see images
    *("vit", "deit", "cait", "volo", "swin", "swinv2", "levit", "mixer", "perceiver", "workspace", "resnet", "mlp"),
)
DETECTORS = ("detr",)
SEEN = ("images", "digits", "boxes", "shapes")  # kinds of data that are images
LEARNS = {
    "translate": ("transformer", "rnn", "t5", "switch"),
    "language": ("gpt", "switchlm", "reformer", "recurrent"),
    "classify": (*SEERS, "bert", "recurrent"),
    "describe": ("captioner",),
    "tag": ("bert", "recurrent"),
    "answer": ("bert",),
    "masked": ("bert",),
    "spans": ("t5", "switch", "transformer"),
    "similar": ("bert",),
    "detect": DETECTORS,
}
ROUTING = ("switch", "switchlm")  # who has experts
SERVES = {
    "translate": ("pairs", "reverse"),
    "language": ("text",),
    "classify": ("images", "digits", "labelled"),
    "describe": ("captions", "scenes"),
    "tag": ("tagged",),
    "answer": ("answers",),
    "masked": ("text",),
    "spans": ("text",),
    "similar": ("pairs",),
    "detect": ("boxes", "shapes"),
}


def sees(family: str) -> bool:
    return family in (*SEERS, *DETECTORS)


def learners(task: str, data: str | None) -> str:
    """The families that can learn a task from data of a kind, or of any where it is not known."""
    return " or ".join(x for x in LEARNS[task] if data is None or sees(x) == (data in SEEN))


def read_run(path: Path, overrides: tuple[str, ...] = ()) -> Run:
    """A run file, strictly; what it does not say of its task's template stays as it is by default."""
    return read_file(Run, path, overrides)
