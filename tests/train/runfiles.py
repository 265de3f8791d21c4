"""A small run file that has a bit of everything, and what is wrong with a text of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from regard.errors import ConfigError
from regard.nn.config import MOST_PROBLEMS, positive, shares
from regard.train.runfile import read, required_setting, setting


@dataclass(frozen=True)
class Deep:
    ratio: float = setting(0.5, "some share")
    letters: tuple[str, ...] = setting(("a",), "some letters")

    def __post_init__(self) -> None:
        shares(self, "ratio")


@dataclass(frozen=True)
class Train:
    steps: int = setting(1000, "how many updates")
    clip: float | None = setting(1.0, "the largest norm of the gradients")
    patience: int | None = setting(None, "how long to wait")
    precision: Literal["float32", "bfloat16"] = setting("float32", "how exact")
    compiled: bool = setting(False, "whether to compile")
    deep: Deep = setting(Deep(ratio=0.25), "a table in a table")

    def __post_init__(self) -> None:
        positive(self, "steps", "patience")
        if self.patience is not None and self.patience > self.steps:
            raise ValueError("patience is longer than all steps")


@dataclass(frozen=True)
class AdamW:
    kind: Literal["adamw"] = "adamw"
    rate: float = setting(1e-3, "how fast")
    betas: tuple[float, ...] = setting((0.9, 0.999), "how long it remembers")


@dataclass(frozen=True)
class SGD:
    kind: Literal["sgd"] = "sgd"
    rate: float = setting(0.1, "how fast")
    momentum: float = setting(0.0, "how heavy")


@dataclass(frozen=True)
class Smoke:
    factor: float = required_setting("below which share of its start the loss must fall")
    steps: int = setting(20, "how many updates")


@dataclass(frozen=True)
class Data:
    train: str = required_setting("the file to learn from")
    attention: str | Mapping[str, Any] | tuple[Any, ...] = setting("softmax", "a name, a table or a list")
    note: str | None = setting(None, "anything")


@dataclass(frozen=True)
class Run:
    name: str = setting("run", "what it is called")
    seed: int = setting(0, "where all chance begins")
    train: Train = setting(Train(), "how it is trained")
    data: Data = required_setting("what it learns from")
    model: Mapping[str, Any] = setting({"dim": 64}, "what differs from the named model")
    optimizer: AdamW | SGD = setting(AdamW(rate=3e-4), "how the weights move")
    smoke: Smoke | None = setting(None, "a short run that shows whether learning works")

    def __post_init__(self) -> None:
        if self.train.steps < self.seed:  # a check of two tables; it has to live with a table that could not be read
            raise ValueError("seed = is above all steps")


LEAST = 'data.train = "a.tsv"\n'


def problems(text: str, *overrides: str, kind: type = Run) -> list[str]:
    """The lines that an error has, without the first, which counts them, and without what to do."""
    with pytest.raises(ConfigError) as caught:
        read(kind, text, "run.toml", overrides)
    head, *lines = caught.value.what.split("\n")
    count = len(lines) if len(lines) <= MOST_PROBLEMS else MOST_PROBLEMS + int(lines[-1].split()[1])
    assert head == f"run.toml: {count} problem{'s' if count > 1 else ''}"
    assert "regard init" in caught.value.fix
    return lines
