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
from regard.data.captions import Captions
from regard.data.images import Images
from regard.errors import InputError
from regard.folders import load
from regard.look.document import About
from regard.model import DETECTORS, Model, build
from regard.nn.mechanisms import MECHANISMS
from regard.swapping import fits, swapped
from regard.zoo import PRESETS, bare, parameters, read_config, shipped

from .examples import ENGLISH, LECTURES, TEXTS, example
from .limits import Limits
from .refusals import RefusedError
from .schema import ModelRow, Takes
from .work import still_wanted, stoppable

RUN = "run:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
SEED = 0  # of random weights and features: the same in every process

# Sizes that are quick enough to play with, and how many parameters they have. Those for text read the words of a model
# that ships.
TRANSLATORS = {
    "transformer-small": 7_065_600,
    "synthesizer-base": 53_501_976,
    "rnn-bahdanau": 65_571_000,
    "t5-small": 47_129_088,
}
READERS = {
    "gpt-tiny": 834_944,
    "llama-15m": 5_995_584,
    "performer-small": 5_274_368,
    "reformer-tiny": 789_445,
    "switch-lm-tiny": 2_669_440,
    "bert-tiny": 487_936,
    "linformer-tiny": 463_429,
    "fnet-tiny": 372_608,
}
SEERS = {
    "vit-tiny": 5_717_416,
    "vit-cifar": 2_697_226,
    "deit-tiny": 5_910_800,
    "cait-xxs24": 11_956_264,
    "volo-d1": 26_632_040,
    "swin-cifar": 567_046,
    "swinv2-tiny": 28_347_154,
    "levit-cifar": 1_450_218,
    "perceiver-mnist": 139_212,
    "mixer-cifar": 441_066,
    "detr-small": 262_248,
}
TELLERS = {"captioner-tiny": 212_800}  # of images, in words
ZOO = TRANSLATORS | READERS | SEERS | TELLERS
MOST = 70_000_000  # parameters of a model with random weights


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in use, with its lock: a net is run by one thread at a time."""

    model: Model
    about: About
    lock: threading.RLock
    bytes: int
    written: int = 0  # when its weights were, of a run


class Shelf:
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
        there = shipped()
        names = [*(name for name in TEXTS if name in there), *(name for name in there if name not in TEXTS)]
        home = files("regard").joinpath("pretrained")
        found = [self.row(name, "shipped", home.joinpath(name, "regard.json")) for name in names]
        found += [self.row(f"{RUN}{name}", "run", folder / "model" / "regard.json") for name, folder in self.finished()]
        return [row for row in found if row is not None] + [zoo_row(name, count) for name, count in ZOO.items()]

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
                found.append((folder, "its name must be letters a to z, digits and . _ + -, at most 100: rename it"))
            elif not self.inside(folder):
                found.append((folder, "it leads out of the folder of runs: move it there"))
        return [f"the run {folder.name!r} is not offered; {why}" for folder, why in found]

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
                known[kind] = fits(model, kind)
        return [kind for kind in MECHANISMS if known[kind]]

    def found(self, name: str) -> Model:
        """Names are looked up in lists, and never made into paths."""
        if name in shipped():
            return self.opened(name, lambda: load(name))
        if name in ZOO:
            return random(name)
        folder = self.folder(name)
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
        parameters=parameters(net.net), source=source, example=example(name, kind), lectures=lectures(name, kind),
    )  # fmt: skip


def zoo_row(name: str, count: int) -> ModelRow:
    kinds: dict[Takes, dict[str, int]] = {"pair": TRANSLATORS, "text": READERS, "image": SEERS, "image+text": TELLERS}
    kind = next(kind for kind, names in kinds.items() if name in names)
    return ModelRow(
        name=name, title=f"{name}, not trained", family=PRESETS[name], task=None, takes=kind,
        parameters=count, source="zoo", example=example(wording(name) or name, kind),
        lectures=lectures(wording(name), kind),
    )  # fmt: skip


def lectures(name: str, takes: Takes) -> list[str]:
    return list(LECTURES) if name in ENGLISH and takes in ("text", "pair") else []


def wording(name: str) -> str:
    """The model that ships whose words one of the zoo reads."""
    return "tatoeba-en-de" if name in TRANSLATORS else "" if name in SEERS else "shakespeare"


def words_of(name: str) -> dict[str, Any]:
    """What its size must be changed by for that."""
    if not (base := wording(name)):
        return {}
    file = files("regard").joinpath("pretrained", base, "regard.json")
    return {"vocab": json.loads(file.read_text("utf-8"))["config"]["vocab"]}


def takes(model: Model) -> Takes:
    if model.sees():
        return "image" if model.processor is None or isinstance(model.processor, Images) else "image+text"
    return "pair" if model.translates() else "text"


def about(name: str, model: Model) -> About:
    size = sum(x.numel() for x in model.parameters())
    source = "zoo" if name in ZOO else "run" if name.startswith(RUN) else "shipped"
    return About(name, model.family, model.task, size, takes(model), name.removeprefix(RUN), source)


def random(name: str) -> Model:
    """A named size with random weights; it reads the words of another model, or images in the plainest way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        made = build(name, **words_of(name)).eval()
    known = load(base) if (base := wording(name)) else None
    if known is not None:
        made = replace(made, processor=known.processor, symbols=known.symbols)
    if not made.sees():
        return made
    size = getattr(made.config, "image", None) or 96
    images = Images(size=size, channels=made.config.channels, fit="within" if made.family in DETECTORS else "stretch")
    return replace(made, processor=images if known is None else Captions(images, known.text()))
