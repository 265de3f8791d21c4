"""The data of a run, arranged: the vocabulary that it is read with, and batches of every split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.answers import Question
from regard.data.batches import Batches, Drawing, Drawn
from regard.data.captions import CaptionMaker, Described
from regard.data.conllu import Tagged
from regard.data.draws import fractions
from regard.data.framed import AnswerMaker, CoupleMaker, LabelMaker, TagMaker
from regard.data.images import Images
from regard.data.labelled import LabelledText
from regard.data.masking import Masking, Neighbours
from regard.data.missing import Spans
from regard.data.order import Order
from regard.data.pairs import PairMaker
from regard.data.rows import Numbers, Rows
from regard.data.stream import Passages, Windows
from regard.data.text import Text
from regard.data.vocabulary import Vocabulary as Learned
from regard.data.vocabulary import ends_of, framing, with_mask, with_sentinels
from regard.interop.symbols import Symbols
from regard.interop.texts import read_bytes
from regard.tasks.language import Tokens, next_tokens
from regard.tasks.reading import last_piece

from .beginning import kind_of, whose_words
from .boxing import boxes_in_batches
from .captioning import caption_batches, without_images
from .goals import Answering, LanguageModel, MaskedModel, MissingSpans, Similarity, Tagging
from .imagery import in_batches
from .inputs import (
    AnswerFiles,
    BoxFiles,
    CaptionFiles,
    DrawnScenes,
    DrawnShapes,
    LabelledFiles,
    PairFiles,
    Pictures,
    Reverse,
    TaggedFiles,
    TextFiles,
    Vocabulary,
    Written,
)
from .settings import Run
from .sources import Opened, found

ENOUGH = 20_000_000  # characters to learn a vocabulary from
SAMPLE = 1000  # rows by which the bytes of a token are known
USUAL = 512  # tokens that are read of a text by a model that would read any number
SENTINELS = 100  # tokens that stand for missing spans


@dataclass(frozen=True, eq=False)
class Sources:
    """What a run learns from, in batches."""

    splits: dict[str, Batches]
    text: Text | None
    names: tuple[str, ...]
    images: Images | None
    longest: int | None = None  # tokens of a row that are read
    cut: float = 0.0  # the share of train's tokens, about, that are beyond that


def learned(rows: Rows, vocabulary: Vocabulary) -> Text:
    """The vocabulary of the first rows."""
    rows = without_images(rows)

    def texts() -> Iterator[str]:
        left = ENOUGH
        for i in range(len(rows)):
            for text in texts_of(rows[i]):
                left -= len(text)
                yield text
            if left < 0:
                return

    return Learned(vocabulary.kind, vocabulary.size).learn(texts())


def texts_of(row: Any) -> Sequence[str]:
    """The texts of a row, whatever else it has."""
    if isinstance(row, LabelledText):
        return row.texts
    if isinstance(row, Question):
        return row.question, row.context
    if isinstance(row, Described):
        return [row.caption]
    return [" ".join(row.words)] if isinstance(row, Tagged) else row


def vocabulary_of(run: Run, rows: Rows, base: Path) -> Text | None:
    """Given, or learned from the training data, if the task reads text; with the tokens that the task needs."""
    if isinstance(run.data, Reverse | DrawnScenes):
        return learned(rows, Vocabulary("words", 100))
    if not isinstance(run.data, Written):
        return None
    if (other := whose_words(run)) is not None:
        return other.text()
    if file := run.data.vocabulary.file:
        path = found(file, base)
        text = Text.from_bytes(read_bytes(path), str(path))
    else:
        text = learned(rows, run.data.vocabulary)
    if isinstance(run.task, MissingSpans):
        return with_sentinels(text, SENTINELS)
    if isinstance(run.task, MaskedModel):
        with_mask(text)
    whole = isinstance(run.task, MaskedModel | Similarity | Answering)
    return framing(text) if whole or isinstance(run.data, LabelledFiles | TaggedFiles) else text


def arranged(run: Run, data: Opened, text: Text | None, length: int | None, symbols: Symbols) -> Sources:
    """Every split in batches: train shuffled, the others in order. ``length`` is what the model reads."""
    if isinstance(run.data, BoxFiles | DrawnShapes):
        assert data.images is not None
        boxed = boxes_in_batches(run, run.data, data.splits, data.images)
        return Sources(boxed, text, data.names, data.images)
    if isinstance(run.data, Pictures):
        assert data.images is not None
        splits = in_batches(run, data.splits, data.images, len(data.names))
        return Sources(splits, text, data.names, data.images)
    assert text is not None
    if isinstance(run.data, DrawnScenes | CaptionFiles):
        return arranged_captions(run, run.data, data, text, symbols)
    if isinstance(run.data, TextFiles) and run.data.unit == "text":
        return arranged_windows(run, data, text, longest_of(run, length) or USUAL, symbols)
    longest, cut = longest_of(run, length), 0.0
    splits = {}
    for split, rows in data.splits.items():
        shuffled = split == "train"
        if isinstance(run.task, MaskedModel) and run.task.follows:
            rows = Neighbours(rows)
        lengths = token_lengths(rows, text)
        if isinstance(rows, Neighbours) or isinstance(run.data, LabelledFiles | AnswerFiles):
            lengths = lengths.sum(1, keepdims=True)  # of two texts in one row
        if longest is not None:
            if shuffled:
                cut = beyond(lengths, longest)
            whole = isinstance(run.data, AnswerFiles) and not shuffled  # all parts, and each token is in two of them
            lengths = np.where(lengths > longest, 2 * lengths if whole else longest, lengths)
        order = Order(len(rows), lengths, budget=run.data.budget, seed=run.seed, shuffle=shuffled)
        splits[split] = batches(run, rows, order, text, longest, data.names, symbols)
    return Sources(splits, text, data.names, data.images, longest, cut)


def batches(
    run: Run,
    rows: Rows,
    order: Order,
    text: Text,
    longest: int | None,
    names: Sequence[str],
    symbols: Symbols,
) -> Batches:
    task = run.task
    if isinstance(task, MaskedModel):
        assert longest is not None
        others = rows.source if isinstance(rows, Neighbours) else None
        return Drawn(rows, order, Masking(text, longest, task.chosen, others), run.seed)
    if isinstance(task, Tagging):
        return Batches(rows, order, TagMaker(text, longest, names, last=last_piece(kind_of(run)[0])))
    if isinstance(task, Answering):
        return Batches(rows, order, AnswerMaker(text, longest, whole=not order.shuffle))
    if isinstance(task, Similarity):
        return Batches(rows, order, CoupleMaker(text, longest))
    if isinstance(run.data, LabelledFiles):
        return Batches(rows, order, LabelMaker(text, longest))
    if isinstance(run.data, TextFiles):
        assert longest is not None
        return Batches(rows, order, LineMaker(text, longest, symbols))
    assert isinstance(run.data, PairFiles | Reverse)
    return Batches(rows, order, PairMaker(text, longest or run.data.longest, symbols))


def longest_of(run: Run, length: int | None) -> int | None:
    """Tokens of a row that are read: as many as the model can, unless fewer are asked for."""
    if not isinstance(run.data, Written):
        return None
    asked = run.data.longest or (length if isinstance(run.task, LanguageModel) and length else USUAL)
    return asked if length is None else min(asked, length)


def arranged_captions(
    run: Run, given: CaptionFiles | DrawnScenes, data: Opened, text: Text, symbols: Symbols
) -> Sources:
    """So many images a batch, whatever the length of what is said of them; of files, captions of like length."""
    assert data.images is not None
    make, cut = CaptionMaker(data.images, text, given.longest, symbols), 0.0
    splits: dict[str, Batches] = {}
    for split, rows in data.splits.items():
        lengths = None
        if isinstance(given, CaptionFiles):
            every = token_lengths(without_images(rows), text)
            cut = beyond(every, given.longest) if split == "train" else cut
            lengths = np.minimum(every, given.longest)
        order = Order(len(rows), lengths, rows=given.batch, seed=run.seed, shuffle=split == "train")
        splits[split] = caption_batches(given, rows, order, make, data.images, run.seed)
    return Sources(splits, text, (), data.images, given.longest, cut)


def beyond(lengths: Numbers, longest: int) -> float:
    """The share of tokens that come after so many in their row."""
    return float(np.maximum(lengths - longest, 0).sum() / max(lengths.sum(), 1))


def arranged_windows(run: Run, data: Opened, text: Text, length: int, symbols: Symbols) -> Sources:
    """A text read through a window. To train, it is moved a little by chance, so that no place is always its first."""
    assert isinstance(run.data, TextFiles)
    splits: dict[str, Batches] = {}
    for split, rows in data.splits.items():
        assert isinstance(rows, Passages)
        windows, shuffled = Windows(rows, text, length), split == "train"
        order = Order(len(windows), rows=max(run.data.budget // length, 1), seed=run.seed, shuffle=shuffled)
        if isinstance(run.task, MissingSpans):
            make: Drawing = Spans(text, length, run.task.missing, run.task.mean, symbols)
        else:
            make = PassageMaker(text, symbols)
        splits[split] = Drawn(windows, order, WindowMaker(length, make, moved=shuffled), run.seed)
    return Sources(splits, text, (), None, length)


def token_lengths(rows: Rows, text: Text) -> Numbers:
    """About how many tokens each field has: its bytes, by the bytes of a token in a sample; one more for the end."""
    assert rows.lengths is not None
    lengths = rows.lengths.reshape(len(rows), -1)
    picked = np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(int))
    sample = [texts_of(rows[int(i)]) for i in picked]
    tokens = np.array([[len(ids) for ids in text.ids(row)] for row in sample])
    ratio = tokens.sum(0) / np.maximum(lengths[picked].sum(0), 1)
    return np.ceil(lengths * ratio).astype(np.int64) + 1


class WindowMaker:
    """Windows of so many tokens, at their place or a little further, given to what makes batches of them."""

    def __init__(self, length: int, make: Drawing, *, moved: bool) -> None:
        self.length, self.make, self.moved = length, make, moved

    def __call__(self, rows: Sequence[Any], numbers: Sequence[np.random.Philox]) -> Any:
        places = [0] * len(rows)
        if self.moved:
            free = [max(len(row) - self.length, 0) for row in rows]
            places = [int(fractions(own, 1)[0] * (room + 1)) for own, room in zip(numbers, free, strict=True)]
        return self.make([row[i : i + self.length] for row, i in zip(rows, places, strict=True)], numbers)


class PassageMaker:
    """Windows into rows of ids behind a begin: wherever it is in the text, that is where the model begins."""

    def __init__(self, text: Text, symbols: Symbols | None = None) -> None:
        self.begin, _ = ends_of(text, symbols)

    def __call__(self, rows: Sequence[Any], numbers: Sequence[np.random.Philox]) -> Tokens:
        return next_tokens([[self.begin, *row.tolist()] for row in rows])


class LineMaker:
    """Texts into rows of ids between a begin and an end; what is longer than the model can read is cut."""

    def __init__(self, text: Text, longest: int, symbols: Symbols | None = None) -> None:
        self.text, self.longest = text.literal(), longest
        self.begin, self.end = ends_of(text, symbols)

    def __call__(self, rows: Sequence[tuple[str, ...]]) -> Any:
        ids = self.text.unframed([row[0] for row in rows])
        return next_tokens([[self.begin, *row[: self.longest - 1], self.end] for row in ids])
