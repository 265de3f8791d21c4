"""Sentences with a tag for each word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.encodings import AUTO, not_encodings
from regard.data.files import only_file
from regard.data.rows import Rows
from regard.data.table_format import BEFORE
from regard.data.table_words import ENCODING_HELP
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import check_splits
from regard.modalities.text.conllu import open_conllu
from regard.modalities.text.preparation import TEXT_PREPARATION, VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, no_files, paths_of


@dataclass(frozen=True)
class TaggedFiles:
    """Sentences with a tag for each word, as Universal Dependencies has them (CoNLL-U)."""

    kind: Literal["tagged"] = "tagged"
    train: tuple[str, ...] = required_setting("training data: one CoNLL-U file")
    held_out: tuple[str, ...] = setting(
        (), "validation data: one file, evaluated during training; empty: a fraction of train"
    )
    test: tuple[str, ...] = setting((), "test data for `regard evaluate --split test`: one file")
    encoding: str = setting(AUTO, ENCODING_HELP)
    tags: Literal["upos", "xpos"] = setting(
        "upos", "universal part-of-speech tags, or the language-specific ones (xpos)"
    )
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of bad sentences; above it the run does not start")
    budget: int = setting(4096, "batch size in tokens, including padding")
    longest: int = setting(
        0, "maximum sequence length in tokens; longer sentences are truncated; 0: the model's limit, at most 512"
    )
    vocabulary: VocabularySettings = setting(
        VocabularySettings(), "tokenizer of the words, trained on the training data"
    )

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(0, self, "longest") + no_files(self.train)
        wrong += not_encodings(self.encoding)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def open_tagged(plan: RunPlan) -> OpenedData:
    data = plan.data
    paths = {split: only_file(files) for split, files in paths_of(plan).items()}
    sentences = {split: open_conllu(path, data.tags, data.encoding) for split, path in paths.items()}
    return check_splits(dict(sentences), data.bad, data.share, plan.seed, names=sentences["train"].tags)


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    return lambda i: [" ".join(rows[i].words)]


def example(folder: Path) -> dict[str, Any]:
    tagged = [(("the", "DET"), (one, "NOUN"), ("runs", "VERB")) for one in ANIMALS * 4]
    lines = [
        "".join(f"{i}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n" for i, (word, tag) in enumerate(row, 1)) for row in tagged
    ]
    (folder / "tagged.conllu").write_text("\n".join([*lines, ""]), "utf-8")
    return {"train": ["tagged.conllu"], "share": 0.2, "budget": 64, "longest": 10, "vocabulary": WORDS}


ONCE = {"encoding": BEFORE["encoding"]}
KIND = DataKind(
    TaggedFiles,
    ("text",),
    open_tagged,
    TEXT_PREPARATION,
    texts_of,
    PATHS,
    example=example,
    before=ONCE,
    store="regard.modalities.text.tagged_storing:store_tagged",
)
