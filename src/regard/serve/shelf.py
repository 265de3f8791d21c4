"""Models by name, never by path: those that ship, the finished runs of one folder, and small ones of the zoo.

They are loaded when first asked for; the latest stay, as long as there is room.
"""

import json
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from regard.data.captions import KIND as CAPTIONS
from regard.data.images import Images
from regard.errors import InputError
from regard.look.document import About
from regard.model import DETECTORS, Model, build, load
from regard.nn.mechanisms import can_drop
from regard.zoo import FAMILIES, bare, config_data, parameters, read_config, shipped

from .examples import TEXTS, example
from .limits import Limits
from .refusals import RefusedError
from .schema import ModelRow, Takes
from .work import still_wanted, stoppable

RUN = "run:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
SEED = 0  # of random weights and features: the same in every process

# Sizes that are quick enough to play with, and how many parameters they have; all of them see images. No MLP-Mixer: of
# those that have names, the influence of each patch on each other takes minutes.
ZOO = {
    "vit-tiny": 5_717_416,
    "vit-cifar": 2_697_226,
    "deit-tiny": 5_910_800,
    "cait-xxs24": 11_956_264,
    "swin-cifar": 567_046,
    "levit-cifar": 1_450_218,
    "perceiver-mnist": 139_212,
    "detr-small": 262_248,
}
MOST = 20_000_000  # parameters of a model with random weights


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in use, with its lock: a net is run by one thread at a time."""

    model: Model
    about: About
    lock: threading.RLock
    bytes: int


class Shelf:
    def __init__(self, runs: Path | None = None, room: int = Limits.models) -> None:
        self.runs, self.room = runs, room
        self.kept: OrderedDict[tuple[str, str | None], Loaded] = OrderedDict()
        self.lock = threading.RLock()
        self.told: dict[tuple[str, float], ModelRow] = {}
        self.dropped: list[Callable[[Model], None]] = []  # who wants to know that a model is gone

    # What there is -------------------------------------------------------------------------------

    def rows(self) -> list[ModelRow]:
        """One for each model, the first that a page opens with first; a run that cannot be read is left out."""
        there = shipped()
        names = [*(name for name in TEXTS if name in there), *(name for name in there if name not in TEXTS)]
        home = files("regard").joinpath("pretrained")
        found = [self.row(name, "shipped", home.joinpath(name, "regard.json")) for name in names]
        found += [self.row(f"{RUN}{name}", "run", folder / "model" / "regard.json") for name, folder in self.finished()]
        return [row for row in found if row is not None] + [zoo_row(name, count) for name, count in ZOO.items()]

    def row(self, name: str, source: Any, file: Any) -> ModelRow | None:
        key = (name, file.stat().st_mtime if isinstance(file, Path) else 0.0)
        if key not in self.told:
            try:
                self.told[key] = row_of(name, source, json.loads(file.read_text("utf-8")))
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                return None
        return self.told[key]

    def finished(self) -> list[tuple[str, Path]]:
        """Runs by the names of their folders, which lie in the one folder and nowhere else."""
        if self.runs is None or not self.runs.is_dir():
            return []
        root = self.runs.resolve()
        found = []
        for folder in sorted(self.runs.iterdir()):
            whole = NAME.fullmatch(folder.name) is not None and folder.resolve().is_relative_to(root)
            if whole and (folder / "run.toml").is_file() and (folder / "model" / "regard.json").is_file():
                found.append((folder.name, folder))
        return found

    # What is in use ------------------------------------------------------------------------------

    @contextmanager
    def using(self, name: str, attention: str | None = None) -> Iterator[Loaded]:
        """A model for one thread."""
        with taking(self.lock):
            loaded = self.get(name, attention)
        with taking(loaded.lock):
            yield loaded

    def get(self, name: str, attention: str | None = None) -> Loaded:
        with self.lock:
            key = (name, attention)
            if key not in self.kept:
                model = self.found(name) if attention is None else another(self.get(name).model, attention)
                stoppable(model.net)
                size = sum(x.nbytes for x in (*model.net.parameters(), *model.net.buffers()))
                self.kept[key] = Loaded(model, about(name, model), threading.RLock(), size)
            self.kept.move_to_end(key)
            while len(self.kept) > 1 and sum(one.bytes for one in self.kept.values()) > self.room:
                _, gone = self.kept.popitem(last=False)
                for tell in self.dropped:
                    tell(gone.model)
            return self.kept[key]

    def found(self, name: str) -> Model:
        """Names are looked up in lists, and never made into paths."""
        if name in shipped():
            return self.opened(name, lambda: load(name))
        if name in ZOO:
            return random(name)
        folder = dict(self.finished()).get(name.removeprefix(RUN)) if name.startswith(RUN) else None
        if folder is None:
            raise RefusedError(404, "there is no such model", got=name, fix="GET models tells which there are")
        return self.opened(name, lambda: load(folder))

    def opened(self, name: str, make: Callable[[], Model]) -> Model:
        """What is wrong with a folder is told in the terminal, not to who asks."""
        try:
            return make()
        except (InputError, OSError) as error:
            print(f"regard: {name} cannot be loaded: {error}", file=sys.stderr)
            raise RefusedError(422, "this model cannot be loaded", fix="the terminal of the server tells why") from None


@contextmanager
def taking(lock: threading.RLock) -> Iterator[None]:
    """Whoever waits for a lock may be forgotten meanwhile."""
    while not lock.acquire(timeout=0.2):
        still_wanted()
    try:
        yield
    finally:
        lock.release()


def row_of(name: str, source: Any, data: dict[str, Any]) -> ModelRow:
    """From regard.json alone."""
    family, config = data["model"], read_config(data["model"], data["config"], name)
    net = Model(family, bare(family, config), task=data["task"])
    captions = (data["processor"] or {}).get("kind") == CAPTIONS
    kind: Takes = "image+text" if captions else takes(net)
    return ModelRow(
        name=name, title=name.removeprefix(RUN), family=family, task=net.task, takes=kind,
        parameters=parameters(net.net), source=source, example=example(name, kind),
    )  # fmt: skip


def zoo_row(name: str, count: int) -> ModelRow:
    family = next(family for family, entry in FAMILIES.items() if name in entry.presets)
    return ModelRow(
        name=name, title=f"{name}, not trained", family=family, task=None, takes="image",
        parameters=count, source="zoo", example=example(name, "image"),
    )  # fmt: skip


def takes(model: Model) -> Takes:
    if model.sees():
        return "image" if model.processor is None or isinstance(model.processor, Images) else "image+text"
    return "pair" if model.translates() else "text"


def about(name: str, model: Model) -> About:
    size = sum(x.numel() for x in model.parameters())
    return About(name, model.family, model.task, size, takes(model), name.removeprefix(RUN))


def random(name: str) -> Model:
    """A named size with random weights, and the plainest way to prepare images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        made = build(name).eval()
    size = getattr(made.config, "image", None) or 96
    images = Images(size=size, channels=made.config.channels, fit="within" if made.family in DETECTORS else "stretch")
    return replace(made, processor=images)


def another(model: Model, attention: str) -> Model:
    """The same weights, each of them, under another mechanism."""
    if not hasattr(model.config, "attention"):
        raise InputError(f"in a {model.family} no attention can be picked", got=attention)
    data = config_data(model.config) | {"attention": attention}
    if "attention_dropout" in data and not can_drop(attention):
        data["attention_dropout"] = 0.0
    try:
        config = read_config(model.family, data, "")
        wanted = dict(bare(model.family, config).named_parameters())
    except InputError as error:
        raise InputError("this model cannot take this attention", got=error.got, expected=error.expected) from None
    own = dict(model.net.named_parameters())
    odd = [key for key in sorted(own.keys() | wanted.keys()) if not same_shape(own.get(key), wanted.get(key))]
    if odd:
        raise InputError(
            "the weights do not fit under this attention",
            got=f"{attention}: {', '.join(odd[:3])}{' ...' if len(odd) > 3 else ''}",
            expected="an attention with the same projections and nothing else to learn, such as performer or local",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)  # of random features, which are no weights
        net = FAMILIES[model.family].net(config).eval()
    with torch.no_grad():
        for key, parameter in net.named_parameters():
            parameter.copy_(own[key])
        theirs = dict(model.net.named_buffers())
        for key, buffer in net.named_buffers():
            if key in theirs and theirs[key].shape == buffer.shape:
                buffer.copy_(theirs[key])
    return replace(model, net=net)


def same_shape(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and one.shape == other.shape
