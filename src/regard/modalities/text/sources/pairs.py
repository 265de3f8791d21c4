"""Pairs of texts: sentences and their translations, or sentences that mean the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.encodings import AUTO
from regard.data.files import PAIR
from regard.data.rows import Rows
from regard.data.table_format import BEFORE, Header, not_table_options
from regard.data.table_words import DELIMITER_HELP, ENCODING_HELP, HEADER_HELP
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan, TableColumns
from regard.modalities.splits import check_splits
from regard.modalities.text.preparation import TEXT_PREPARATION, TOKENIZER_HELP, VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, Tables, no_files, paths_of


@dataclass(frozen=True)
class PairFiles:
    """Sentences and their translations."""

    kind: Literal["pairs"] = "pairs"
    train: tuple[str, ...] = required_setting(
        "training data: one tsv, csv or jsonl file, or two plain text files aligned line by line"
    )
    held_out: tuple[str, ...] = setting(
        (), "validation data in the same form, evaluated during training; empty: a fraction of train"
    )
    test: tuple[str, ...] = setting((), "test data in the same form for `regard evaluate --split test`")
    columns: tuple[int | str, ...] = setting(
        (1, 2), "columns of source and target in a tsv or csv, by number or name; for jsonl: the keys"
    )
    header: Header = setting("auto", HEADER_HELP)
    delimiter: str = setting(AUTO, DELIMITER_HELP)
    encoding: str = setting(AUTO, ENCODING_HELP)
    share: float = setting(0.01, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of bad rows; above it the run does not start")
    budget: int = setting(4096, "batch size in tokens of source and target, including padding")
    longest: int = setting(128, "maximum length of a sentence in tokens; longer sentences are truncated")
    vocabulary: VocabularySettings = setting(VocabularySettings(), TOKENIZER_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(2, self, "longest")
        wrong += not_table_options(self, *(self.columns or ()))
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"), no_files(self.train))


def columns(data: Any) -> TableColumns:
    return TableColumns(tuple(data.columns), PAIR)


def open_pairs(plan: RunPlan) -> OpenedData:
    tables = Tables(plan, columns)
    splits: dict[str, Rows] = {split: tables.open_pairs(split, files) for split, files in paths_of(plan).items()}
    return check_splits(splits, plan.data.bad, plan.data.share, plan.seed, tables=tables.found)


def example(folder: Path) -> dict[str, Any]:
    rows = [f"the {one} sees a {other}\ta {other} sees the {one}\n" for one in ANIMALS for other in ANIMALS]
    (folder / "pairs.tsv").write_text("".join(rows), "utf-8")
    return {"train": ["pairs.tsv"], "share": 0.2, "budget": 96, "longest": 10, "vocabulary": WORDS}


KIND = DataKind(
    PairFiles,
    ("text",),
    open_pairs,
    TEXT_PREPARATION,
    paths=PATHS,
    example=example,
    columns=columns,
    before=BEFORE,
    store="regard.modalities.text.storing:store_pairs",
)
