"""The run file as a table of settings: one file is one run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.vocabulary import BYTES, Kind
from regard.nn.config import below, flaws, near, not_above_zero, not_positive, not_shares, refuse
from regard.train.optimizers import SGD, Adafactor, Adam, AdamW
from regard.train.runfile import read_file, required, setting
from regard.train.schedules import Constant, Cosine, InverseSqrt, Linear
from regard.train.settings import Train
from regard.zoo import FAMILIES, PRESETS, misfits


@dataclass(frozen=True)
class Vocabulary:
    kind: Kind = setting("bpe", "bpe loses no text; wordpiece may differ between two runs with one seed")
    size: int = setting(8000, "how many tokens at most")
    file: str = setting("", "a tokenizer.json to use instead of learning one; it needs the tokens <begin> and <end>")
    vectors: Literal["random", "word2vec"] = setting(
        "random", "of the words at the start; word2vec: learned from train"
    )

    def __post_init__(self) -> None:
        least = BYTES if self.kind == "bpe" and not self.file else 1
        refuse(below(least, self, "size"))


@dataclass(frozen=True)
class PairFiles:
    """Sentences and their translations."""

    kind: Literal["pairs"] = "pairs"
    train: tuple[str, ...] = required("one tsv or jsonl file, or two plain files of which line i belongs to line i")
    held_out: tuple[str, ...] = setting(
        (), "files of the same form to evaluate on while training; none: a share of train"
    )
    test: tuple[str, ...] = setting((), "files of the same form for `regard evaluate --split test`")
    columns: tuple[int | str, ...] = setting(
        (1, 2), "of a tsv: source and target, by number or name; of jsonl: the keys"
    )
    share: float = setting(0.01, "what is held out of train, where no files are given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, source and target, padding included")
    longest: int = setting(128, "tokens of a sentence; the rest is cut off")
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(2, self, "longest")
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"), no_files(self.train))


@dataclass(frozen=True)
class Reverse:
    """Generated: numbers in words, to be said backwards."""

    kind: Literal["reverse"] = "reverse"
    rows: int = setting(4000, "how many to train on")
    longest: int = setting(8, "words of the longest")
    budget: int = setting(1024, "tokens of a batch, source and target, padding included")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "budget"), below(2, self, "longest"))


@dataclass(frozen=True)
class TextFiles:
    """Plain text, an example a line; what is longer than the model reads is cut off."""

    kind: Literal["text"] = "text"
    train: tuple[str, ...] = required("one file of plain text, or jsonl")
    held_out: tuple[str, ...] = setting((), "files to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "files for `regard evaluate --split test`")
    key: str = setting("text", "of jsonl: the key of the text")
    share: float = setting(0.01, "what is held out of train, where no files are given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, padding included")
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + no_files(self.train)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


@dataclass(frozen=True)
class ImageFiles:
    """Images with labels: a folder with a folder for each label, or with a table of labels, or with idx files."""

    kind: Literal["images"] = "images"
    train: str = required("a folder")
    held_out: str = setting("", "a folder to evaluate on while training; none: a share of train")
    test: str = setting(
        "", "a folder for `regard evaluate --split test`; of idx files, their test split is the default"
    )
    share: float = setting(0.1, "what is held out of train, where no folder is given")
    bad: float = setting(0.01, "more than this share of bad images stops the run before it begins")
    batch: int = setting(64, "images of a batch")
    mean: tuple[float, ...] = setting((0.5,), "of the pixels, 0 is black and 1 white: one, or one a channel")
    deviation: tuple[float, ...] = setting((0.5,), "of the pixels: one, or one a channel")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + ([] if self.train or self.train is None else ["train names no folder"])
        if self.deviation is not None and not all(x > 0 for x in self.deviation):
            wrong += [f"deviation = {list(self.deviation)} is not above 0"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def no_files(train: tuple[str, ...] | None) -> list[str]:
    return ["train names no file"] if train is not None and not train else []


@dataclass(frozen=True)
class Translation:
    """Foretell each word of the target from the source and the words before it."""

    kind: Literal["translate"] = "translate"
    smoothing: float = setting(0.1, "label smoothing")
    given: float = setting(1.0, "share of words given as they should be; the others as the model itself says them")
    decay: float = setting(0.0, "k of scheduled sampling: that share falls as k / (k + exp(step / k)); 0: it stays")
    teacher: str = setting("", "a run's or model's folder to learn from too; it must have the same vocabulary")
    share: float = setting(0.5, "of the loss, for the teacher")
    temperature: float = setting(1.0, "at which teacher and student are compared")

    def __post_init__(self) -> None:
        refuse(
            not_shares(self, "smoothing"),
            below(0, self, "given", "decay", "share"),
            not_above_zero(self, "temperature"),
            [f"{key} = {value} is above 1" for key in ("given", "share") if (value := getattr(self, key) or 0) > 1],
        )


@dataclass(frozen=True)
class LanguageModel:
    """Foretell each token from those before it."""

    kind: Literal["language"] = "language"
    smoothing: float = setting(0.0, "label smoothing")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"))


@dataclass(frozen=True)
class Classification:
    """One label for each example."""

    kind: Literal["classify"] = "classify"
    smoothing: float = setting(0.0, "label smoothing")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"))


@dataclass(frozen=True)
class Smoke:
    """A short variant for tests, and what it must reach."""

    set: tuple[str, ...] = setting((), 'what is different, such as "train.steps=40"')
    factor: float = setting(0.9, "the last training loss must be below the first one times this")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "factor"))


@dataclass(frozen=True)
class Run:
    task: Translation | LanguageModel | Classification = required("what is learned")
    data: PairFiles | Reverse | TextFiles | ImageFiles = required("what it is learned from")
    model: Mapping[str, Any] = required("a name that `regard models` lists, and any keys of its config")
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
            able = " or ".join(LEARNS[self.task.kind])
            wrong += [f"model.name: a {family} cannot {self.task.kind}; it takes a model of the {able} family"]
        if isinstance(self.optimizer, Adafactor) and self.train is not None and self.train.distribution == "fsdp":
            wrong += ["optimizer of kind 'adafactor' cannot be sharded by PyTorch: use train.distribution = 'ddp'"]
        refuse(wrong, [] if self.model is None else model_flaws(self.model))


def model_flaws(model: Mapping[str, Any]) -> list[str]:
    """What is wrong with single keys; if nothing is, with those that do not fit together or into this model."""
    name = model.get("name")
    if not isinstance(name, str):
        return ["model has no name: give one that `regard models` lists"]
    if name not in PRESETS:
        return [f"model.name: no model is called {name!r}{near(name, PRESETS)}; `regard models` lists all of them"]
    kind = FAMILIES[PRESETS[name]].config
    changes = {key: value for key, value in model.items() if key != "name"}
    single = [f"model.{key}: {problem}" for key, value in changes.items() for problem in flaws(kind, {key: value})]
    return single or [f"{blamed(problem, changes)}: {problem}" for problem in misfits(name, changes)]


def blamed(problem: str, changes: Mapping[str, Any]) -> str:
    """The key that a problem of several is told of: the first that the run file gives."""
    return next((f"model.{key}" for key in changes if re.search(rf"\b{re.escape(key)}\b", problem)), "model")


LEARNS = {"translate": ("transformer", "rnn"), "language": ("gpt",), "classify": ("vit", "mlp")}
SERVES = {"translate": ("pairs", "reverse"), "language": ("text",), "classify": ("images",)}


def read_run(path: Path, overrides: tuple[str, ...] = ()) -> Run:
    """A run file, strictly; what it does not say of its task's template stays as it is by default."""
    return read_file(Run, path, overrides)
