"""The tokenizer of a run that reads or writes text: that of another model, of a file, or learned from the data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from regard.data.files import find_file
from regard.decode.symbols import Symbols
from regard.deprecation import resolve_renamed
from regard.modalities.goals import goal_of, task_model_names
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import OpenedData, Preparation, RunPlan, Size, SplitBatches
from regard.modalities.sources import source_of
from regard.models.word2vec import Config as Word2Vec
from regard.models.word2vec import word_vectors
from regard.nn.config import not_at_least, refuse
from regard.storage.documents import read_bytes
from regard.train.runfile import setting
from regard.zoo import FAMILIES

from .processor import Text
from .processor_kind import FILE
from .runners import text_processor
from .vocabulary import BYTE_VOCABULARY, Kind, Vocabulary, tokenizer_symbols

ENOUGH = 20_000_000  # characters to learn a vocabulary from
TOKENIZER_HELP = "tokenizer, trained on the training data"


@dataclass(frozen=True)
class VocabularySettings:
    kind: Kind = setting(
        "bpe", "tokenizer type; bpe can encode any text, wordpiece may differ between two runs with the same seed"
    )
    size: int = setting(8000, "maximum vocabulary size")
    file: str = setting(
        "", "tokenizer.json to use instead of training a tokenizer; it needs the tokens <begin> and <end>"
    )
    vectors: Literal["random", "word2vec"] = setting(
        "random", "initial word embeddings; word2vec: trained on the training data"
    )

    def __post_init__(self) -> None:
        least = BYTE_VOCABULARY if self.kind == "bpe" and not self.file else 1
        refuse(not_at_least(least, self, "size"))


def whose_words(plan: RunPlan) -> ModelView | None:
    """The model whose vocabulary a run takes over: that which it starts from, or its teacher, unless it asks for a
    vocabulary of its own."""
    if plan.start is not None:
        return plan.start
    teachers = task_model_names(plan.task)
    asked = source_of(plan.data).preparation is TEXT_PREPARATION and plan.data.vocabulary
    return plan.load(teachers[0]) if teachers and asked == VocabularySettings() else None


def learn(plan: RunPlan, opened: OpenedData) -> dict[str, bytes]:
    """Given, or learned from the training data; with the tokens that the goal needs."""
    if (other := whose_words(plan)) is not None:
        return text_processor(other).files()
    if file := plan.data.vocabulary.file:
        path = find_file(file, plan.base)
        text = Text.from_bytes(read_bytes(path), str(path))
    else:
        text = learned(plan, opened, plan.data.vocabulary.kind, plan.data.vocabulary.size)
    return goal_of(plan.task).tokens(text).files()


def learn_words(plan: RunPlan, opened: OpenedData) -> dict[str, bytes]:
    """Of what code generates, whose words are few."""
    return learned(plan, opened, "words", 100).files()


def learned(plan: RunPlan, opened: OpenedData, kind: Kind, size: int) -> Text:
    """The vocabulary of the first rows."""
    rows = opened.splits["train"]
    texts_of = source_of(plan.data).texts(rows)

    def texts() -> Iterator[str]:
        left = ENOUGH
        for i in range(len(rows)):
            for text in texts_of(i):
                left -= len(text)
                yield text
            if left < 0:
                return

    return Vocabulary(kind, size).learn(texts())


def processor_of(opened: OpenedData, files: Mapping[str, bytes]) -> Text:
    return Text.from_bytes(files[FILE], "the vocabulary of the run")


def sizes(plan: RunPlan, text: Text) -> dict[str, Size]:
    """As many embeddings as there are tokens, or as the model had whose tokens they are."""
    needed, family, other = text.tokenizer.get_vocab_size(), FAMILIES[plan.family], whose_words(plan)
    found = {}
    for key in ("vocab", "target_vocab"):
        if family.get(plan.config, key) is not None:  # without one of its own the target has the other's
            usual = needed if other is None else other.get(key) or other.get("vocab")  # or room for more
            found[key] = Size(needed, usual, "vocabulary size")
    return found


def symbols(plan: RunPlan, text: Text) -> Symbols:
    other = whose_words(plan)
    return tokenizer_symbols(text) if other is None else other.symbols


def start_from_vectors(plan: RunPlan, model: ModelView, sources: SplitBatches) -> None:
    """Word vectors learned from the training text, if asked for, as large as the random ones that they replace."""
    if plan.data.vocabulary.vectors == "random":
        return
    rows = sources.splits["train"].source
    texts_of = source_of(plan.data).texts(rows)
    texts = [text for i in range(len(rows)) for text in texts_of(i)]
    table: Any = model.net.embed.weight  # type: ignore[union-attr]
    vocab, dim = table.shape
    found = word_vectors(text_processor(model).literal().ids(texts), Word2Vec(vocab=vocab, dim=dim, seed=plan.seed))
    with torch.no_grad():
        table.copy_(found * (table.std() / found.std()))


def not_with_start(data: Any) -> list[str]:
    if data.vocabulary != VocabularySettings():
        return ["data.vocabulary: not allowed with [start], whose model has its own vocabulary"]
    return []


def absolute(data: Any, base: Path) -> Any:
    if not data.vocabulary.file:
        return data
    return replace(data, vocabulary=replace(data.vocabulary, file=str(find_file(data.vocabulary.file, base))))


TEXT_PREPARATION = Preparation(
    (FILE,), learn, processor_of, sizes, symbols, start_from_vectors, absolute, not_with_start
)
GENERATED_TEXT_PREPARATION = Preparation((FILE,), learn_words, processor_of, sizes, symbols)


OLD = {
    "HOW": "regard.modalities.text.preparation.TOKENIZER_HELP",
    "TEXT": "regard.modalities.text.preparation.TEXT_PREPARATION",
}


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, OLD)
