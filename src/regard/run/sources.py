"""The data of a run: files opened, checked and put in order; the vocabulary that they are read with."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.batches import Batches
from regard.data.faults import Fault, tolerate
from regard.data.generated import Reversal
from regard.data.idx import open_idx
from regard.data.images import Images, open_images
from regard.data.order import Order
from regard.data.pairs import PairMaker
from regard.data.rows import Rows, held_out
from regard.data.tables import open_jsonl, open_plain, open_tsv
from regard.data.text import Text
from regard.data.vocabulary import BEGIN, END
from regard.data.vocabulary import Vocabulary as Learned
from regard.errors import InputError
from regard.interop.texts import read_bytes
from regard.tasks.classify import Labelled
from regard.tasks.language import next_tokens
from regard.zoo import preset

from .settings import ImageFiles, PairFiles, Reverse, Run, TextFiles, Vocabulary

ENOUGH = 20_000_000  # characters to learn a vocabulary from
SAMPLE = 1000  # rows by which the bytes of a token are known


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows of each split, what was left out of them, and how images are prepared."""

    splits: dict[str, Rows]
    faults: Sequence[Fault]
    images: Images | None = None
    names: tuple[str, ...] = ()  # of labels


@dataclass(frozen=True, eq=False)
class Sources:
    """What a run learns from, in batches."""

    splits: dict[str, Batches]
    text: Text | None
    names: tuple[str, ...]
    images: Images | None
    longest: int | None = None  # tokens of a row that are read
    cut: float = 0.0  # the share of train's tokens, about, that are beyond that


def found(name: str, base: Path) -> Path:
    """A path beside the run file, or as it is, or among the data that REGARD_DATA names."""
    data = os.environ.get("REGARD_DATA")
    places = [base / name, Path(name), *([Path(data) / name] if data else [])]
    places = list(dict.fromkeys(place.absolute() for place in places))  # an absolute name is one place
    for place in places:
        if place.exists():
            return place.resolve()
    raise InputError(
        "there is no such file",
        got=name,
        expected=" or ".join(map(str, places)),
        fix=f"REGARD_DATA, the folder that holds your data, is {data or 'not set'}: set it, or give another path",
    )


def opened(run: Run, base: Path) -> Opened:
    """All files of a run, checked. Too many bad rows stop here, before anything is made."""
    data = run.data
    if isinstance(data, Reverse):
        return Opened(
            {
                "train": Reversal(data.rows, data.longest, run.seed),
                "held_out": Reversal(200, data.longest, run.seed + 1),
                "test": Reversal(200, data.longest, run.seed + 2),
            },
            (),
        )
    if isinstance(data, ImageFiles):
        return opened_images(data, run, base)
    if isinstance(data, PairFiles):
        read = partial(pair_rows, columns=data.columns)
    else:
        read = partial(text_rows, key=data.key)
    files = {"train": data.train, "held_out": data.held_out, "test": data.test}
    splits: dict[str, Rows] = {
        split: read([found(name, base) for name in names]) for split, names in files.items() if names
    }
    return checked(splits, data.bad, data.share, run.seed)


def checked(
    splits: dict[str, Rows],
    bad: float,
    share: float,
    seed: int,
    images: Images | None = None,
    names: tuple[str, ...] = (),
) -> Opened:
    """Held against the share of bad rows that is tolerated; a part held out where there is none."""
    for split, rows in splits.items():
        tolerate(rows.faults, len(rows) + len(rows.faults), bad, f"data.{split}")
    faults = [fault for rows in splits.values() for fault in rows.faults]
    if "held_out" not in splits:
        splits["train"], splits["held_out"] = held_out(splits["train"], share, seed)
    return Opened(splits, faults, images, names)


def opened_images(data: ImageFiles, run: Run, base: Path) -> Opened:
    _, config = preset(run.model["name"], {key: value for key, value in run.model.items() if key != "name"})
    size, channels = getattr(config, "image", 224), getattr(config, "channels", 3)
    try:
        images = Images(size=size, channels=channels, mean=data.mean, std=data.deviation)
    except ValueError as error:
        raise InputError("images cannot be prepared so", where="data.mean, data.deviation", got=str(error)) from None
    folder = found(data.train, base)
    idx = any("-ubyte" in name for name in os.listdir(folder)) if folder.is_dir() else False
    train = open_idx(folder, "train", images) if idx else open_images(folder, images)
    splits: dict[str, Rows] = {"train": train}
    for split, name in (("held_out", data.held_out), ("test", data.test)):
        if name:
            other = found(name, base)
            splits[split] = (open_idx if idx else open_split)(other, split, images, train.labels)
    if idx and "test" not in splits and any(name.startswith(("test", "t10k")) for name in os.listdir(folder)):
        splits["test"] = open_idx(folder, "test", images, train.labels)
    return checked(splits, data.bad, data.share, run.seed, images=images, names=tuple(train.labels))


def open_split(folder: Path, split: str, images: Images, labels: Sequence[str]) -> Rows:
    return open_images(folder, images, labels)


def pair_rows(paths: Sequence[Path], columns: Sequence[int | str]) -> Rows:
    if len(paths) == 2:
        return open_plain(*paths)
    if len(paths) != 1 or len(columns) != 2:
        raise InputError(
            "pairs come from one file with two columns, or from two files",
            got=f"{len(paths)} files, columns {list(columns)}",
        )
    if is_jsonl(paths[0]):
        return open_jsonl(paths[0], [str(column) for column in columns])
    return open_tsv(paths[0], columns)


def text_rows(paths: Sequence[Path], key: str) -> Rows:
    if len(paths) != 1:
        raise InputError("text comes from one file a split", got=", ".join(map(str, paths)), fix="join the files")
    return open_jsonl(paths[0], [key]) if is_jsonl(paths[0]) else open_plain(*paths)


def is_jsonl(path: Path) -> bool:
    return path.name.removesuffix(".gz").removesuffix(".xz").endswith((".jsonl", ".json"))


def learned(rows: Rows, vocabulary: Vocabulary) -> Text:
    """The vocabulary of the first rows."""

    def texts() -> Iterator[str]:
        left = ENOUGH
        for i in range(len(rows)):
            for text in rows[i]:
                left -= len(text)
                yield text
            if left < 0:
                return

    return Learned(vocabulary.kind, vocabulary.size).learn(texts())


def vocabulary_of(run: Run, rows: Rows, base: Path) -> Text | None:
    """Given, or learned from the training data, if the task reads text."""
    if isinstance(run.data, Reverse):
        return learned(rows, Vocabulary("words", 100))
    if not isinstance(run.data, PairFiles | TextFiles):
        return None
    if file := run.data.vocabulary.file:
        path = found(file, base)
        return Text.from_bytes(read_bytes(path), str(path))
    return learned(rows, run.data.vocabulary)


def arranged(run: Run, data: Opened, text: Text | None, longest: int | None) -> Sources:
    """Every split in batches: train shuffled, the others in order."""
    splits, cut = {}, 0.0
    if isinstance(run.data, PairFiles):
        longest = run.data.longest
    elif isinstance(run.data, TextFiles):
        longest = longest or 1024
    for split, rows in data.splits.items():
        shuffled = split == "train"
        if isinstance(run.data, ImageFiles):
            order = Order(len(rows), rows=run.data.batch, seed=run.seed, shuffle=shuffled)
            assert data.images is not None
            splits[split] = Batches(rows, order, ImageMaker(data.images))
            continue
        assert text is not None
        lengths = token_lengths(rows, text)
        if longest is not None and not isinstance(run.data, Reverse):
            if shuffled:
                cut = float(np.maximum(lengths - longest, 0).sum() / max(lengths.sum(), 1))
            lengths = np.minimum(lengths, longest)
        order = Order(len(rows), lengths, budget=run.data.budget, seed=run.seed, shuffle=shuffled)
        make = (
            LineMaker(text, longest or 1024) if isinstance(run.data, TextFiles) else PairMaker(text, run.data.longest)
        )
        splits[split] = Batches(rows, order, make)
    return Sources(splits, text, data.names, data.images, longest, cut)


def token_lengths(rows: Rows, text: Text) -> np.ndarray[Any, np.dtype[np.int64]]:
    """About how many tokens each field has: its bytes, by the bytes of a token in a sample; one more for the end."""
    assert rows.lengths is not None
    lengths = rows.lengths.reshape(len(rows), -1)
    picked = np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(int))
    sample = [rows[int(i)] for i in picked]
    tokens = np.array([[len(ids) for ids in text.ids(row)] for row in sample])
    ratio = tokens.sum(0) / np.maximum(lengths[picked].sum(0), 1)
    return np.ceil(lengths * ratio).astype(np.int64) + 1


class LineMaker:
    """Texts into rows of ids between a begin and an end; what is longer than the model can read is cut."""

    def __init__(self, text: Text, longest: int) -> None:
        self.text, self.longest = text.literal(), longest
        self.begin, self.end = text.id_of(BEGIN), text.id_of(END)

    def __call__(self, rows: Sequence[tuple[str, ...]]) -> Any:
        ids = self.text.ids([row[0] for row in rows])
        return next_tokens([[self.begin, *row[: self.longest - 1], self.end] for row in ids])


class ImageMaker:
    """Images, normalised, and their labels."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __call__(self, rows: Sequence[Any]) -> Labelled:
        pixels = torch.stack([self.images.normalise(row.image) for row in rows])
        return Labelled(pixels, torch.tensor([row.label for row in rows]))
