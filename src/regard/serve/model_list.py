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
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from regard.building import build
from regard.errors import InputError
from regard.folders import load
from regard.look.document import About
from regard.look.examples import input_kind
from regard.modalities.page_inputs import PAGE_INPUTS
from regard.modalities.processors import kind_for
from regard.model import Model
from regard.nn.mechanisms import MECHANISMS
from regard.plugins import require_plugins
from regard.swapping import can_swap, swapped
from regard.zoo import FAMILIES, count_parameters, empty_net, read_config, shipped_names

from .limits import Limits
from .refusals import RefusedError
from .schema import ModelRow
from .work import still_wanted, stoppable

RUN = "run:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
FIRST = ("tatoeba-en-de", "tatoeba-de-en", "recall", "shakespeare")  # of those that ship
SEED = 0  # of random weights and features: the same in every process

MOST = 70_000_000  # parameters of a model with random weights


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in use, with its lock: a net is run by one thread at a time."""

    model: Model
    about: About
    lock: threading.RLock
    bytes: int
    written: int = 0  # when its weights were, of a run


class ModelShelf:
    def __init__(self, runs: Path | None = None, room: int = Limits.models) -> None:
        self.runs, self.room = runs, room
        self.kept: OrderedDict[tuple[str, str | None], Loaded] = OrderedDict()
        self.lock = threading.RLock()
        self.told: dict[tuple[str, float], ModelRow] = {}
        self.fitting: dict[str, dict[str, bool]] = {}  # whether a model's weights fit under an attention
        self.dropped: list[Callable[[Model], None]] = []  # who wants to know that a model is gone

    # What there is -------------------------------------------------------------------------------

    def rows(self) -> list[ModelRow]:
        """One for each model, the first that a page opens with first; a run that cannot be read is left out."""
        there = shipped_names()
        names = [*(name for name in FIRST if name in there), *(name for name in there if name not in FIRST)]
        home = files("regard").joinpath("pretrained")
        found = [self.row(name, "shipped", home.joinpath(name, "regard.json")) for name in names]
        found += [self.row(f"{RUN}{name}", "run", folder / "model" / "regard.json") for name, folder in self.finished()]
        return [row for row in found if row is not None] + [zoo_row(name) for name in offered()]

    def row(self, name: str, source: Any, file: Any) -> ModelRow | None:
        try:
            key = (name, file.stat().st_mtime if isinstance(file, Path) else 0.0)
            if key not in self.told:
                self.told[key] = row_of(name, source, json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return self.told[key]

    def finished(self) -> list[tuple[str, Path]]:
        """Runs by the names of their folders, which lie in the one folder and nowhere else."""
        return [(folder.name, folder) for folder in self.ended() if self.named(folder) and self.inside(folder)]

    def left_out(self) -> list[str]:
        """Finished runs that cannot be offered: which, why, and what to do."""
        found = []
        for folder in self.ended():
            if not self.named(folder):
                found.append(
                    (folder, "rename it: the name may have letters a to z, digits and . _ + -, at most 100 characters")
                )
            elif not self.inside(folder):
                found.append((folder, "it is a link out of the runs folder: move it there"))
            elif why := without_plugin(folder / "model" / "regard.json"):
                found.append((folder, why))
        return [f"skipping the run {folder.name!r}: {why}" for folder, why in found]

    def ended(self) -> list[Path]:
        if self.runs is None or not self.runs.is_dir():
            return []
        files = ("run.toml", "model/regard.json")
        return [folder for folder in sorted(self.runs.iterdir()) if all((folder / file).is_file() for file in files)]

    def named(self, folder: Path) -> bool:
        return NAME.fullmatch(folder.name) is not None

    def inside(self, folder: Path) -> bool:
        return self.runs is not None and folder.resolve().is_relative_to(self.runs.resolve())

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
            key, written = (name, attention), self.refresh(name)
            if key not in self.kept:
                model = self.found(name) if attention is None else swapped(self.get(name).model, attention, SEED)
                stoppable(model.net)
                size = sum(x.nbytes for x in (*model.net.parameters(), *model.net.buffers()))
                self.kept[key] = Loaded(model, about(name, model), threading.RLock(), size, written)
            self.kept.move_to_end(key)
            while len(self.kept) > 1 and sum(one.bytes for one in self.kept.values()) > self.room:
                self.drop(next(iter(self.kept)))
            return self.kept[key]

    def drop(self, key: tuple[str, str | None]) -> None:
        gone = self.kept.pop(key)
        for tell in self.dropped:
            tell(gone.model)

    def refresh(self, name: str) -> int:
        """A run that was trained anew is loaded anew.  -> when its weights were written, in nanoseconds; 0 of all other
        models, and of runs that are gone"""
        folder = self.folder(name)
        try:
            written = 0 if folder is None else (folder / "model" / "model.safetensors").stat().st_mtime_ns
        except OSError:
            written = 0
        with self.lock:
            for key in [key for key, one in self.kept.items() if key[0] == name and one.written != written]:
                self.drop(key)
        return written

    def folder(self, name: str) -> Path | None:
        return dict(self.finished()).get(name.removeprefix(RUN)) if name.startswith(RUN) else None

    def attentions(self, name: str) -> list[str]:
        """Those of the table that the weights of this model fit under, its own among them."""
        model = self.get(name).model
        known = self.fitting.setdefault(name, {})
        for kind in MECHANISMS:
            still_wanted()  # who asks again goes on from here
            if kind not in known:
                known[kind] = can_swap(model, kind)
        return [kind for kind in MECHANISMS if known[kind]]

    def found(self, name: str) -> Model:
        """Names are looked up in lists, and never made into paths."""
        if name in shipped_names():
            return self.opened(name, lambda: load(name))
        if name in offered():
            return random(name)
        folder = self.folder(name)
        if folder is None:
            raise RefusedError(404, "unknown model", got=name, fix="list the models with GET models")
        return self.opened(name, lambda: load(folder))

    def opened(self, name: str, make: Callable[[], Model]) -> Model:
        """What is wrong with a folder is told in the terminal, not to who asks."""
        try:
            return make()
        except (InputError, OSError) as error:
            print(f"regard: {name} cannot be loaded: {error}", file=sys.stderr)
            raise RefusedError(422, "this model cannot be loaded", fix="see the terminal of the server") from None


def without_plugin(file: Path) -> str:
    """The plug-in that a run was trained with and that is not here, or is another one; empty where all are here."""
    try:
        require_plugins(json.loads(file.read_text("utf-8")).get("plugins", []), str(file))
    except InputError as error:
        return f"{error.what}: {error.fix}"
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""  # told when it is asked for
    return ""


@contextmanager
def taking(lock: threading.RLock) -> Iterator[None]:
    """Whoever waits for a lock may be forgotten meanwhile."""
    while not lock.acquire(timeout=0.2):
        still_wanted()
    try:
        yield
    finally:
        lock.release()


@cache
def offered() -> dict[str, str]:
    """The family of each named size that is quick enough to play with, untrained; its inputs must have a form."""
    able = {family: row for family, row in FAMILIES.items() if input_kind(row.takes) in PAGE_INPUTS}
    return {name: family for family, row in able.items() for name in row.offered}


def row_of(name: str, source: Any, data: dict[str, Any]) -> ModelRow:
    """From regard.json alone."""
    require_plugins(data.get("plugins", []), name)
    family, config = data["model"], read_config(data["model"], data["config"], name)
    row, net = FAMILIES[family], empty_net(family, config)
    kind, verbs = input_kind(row.takes), row.verbs(config, data["task"])
    return ModelRow(
        name=name, title=name.removeprefix(RUN), family=family, task=data["task"], takes=kind, verbs=list(verbs),
        parameters=count_parameters(net), source=source,
        example=PAGE_INPUTS[kind].example(name, verbs), lectures=list(PAGE_INPUTS[kind].lectures(name)),
    )  # fmt: skip


def zoo_row(name: str) -> ModelRow:
    family = offered()[name]
    row, words = FAMILIES[family], wording(name)
    kind, verbs = input_kind(row.takes), row.verbs(row.presets[name], None)
    return ModelRow(
        name=name, title=f"{name}, untrained", family=family, task=None, takes=kind, verbs=list(verbs),
        parameters=row.offered[name], source="zoo",
        example=PAGE_INPUTS[kind].example(words or name, verbs), lectures=list(PAGE_INPUTS[kind].lectures(words)),
    )  # fmt: skip


def wording(name: str) -> str:
    """The model that ships whose words one with random weights reads or writes."""
    return PAGE_INPUTS[input_kind(FAMILIES[offered()[name]].takes)].words


def words_of(name: str) -> dict[str, Any]:
    """What its size must be changed by for that."""
    if not (base := wording(name)):
        return {}
    file = files("regard").joinpath("pretrained", base, "regard.json")
    return {"vocab": json.loads(file.read_text("utf-8"))["config"]["vocab"]}


def about(name: str, model: Model) -> About:
    size = sum(x.numel() for x in model.parameters())
    source = "zoo" if name in offered() else "run" if name.startswith(RUN) else "shipped"
    return About(name, model.family, model.task, size, input_kind(model.takes), name.removeprefix(RUN), source)


def random(name: str) -> Model:
    """A named size with random weights; it reads the words of another model, or images in the plainest way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        made = build(name, **words_of(name)).eval()
    family, known = FAMILIES[made.family], load(base) if (base := wording(name)) else None
    processor = kind_for(family).blank(family, made.config, None if known is None else known.processor)
    return replace(made, processor=processor, symbols=made.symbols if known is None else known.symbols)
