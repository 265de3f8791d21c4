"""Texts, or pairs of texts, with a label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.counter_rng import HOLDOUT, permutation, philox
from regard.data.encodings import AUTO
from regard.data.files import only_file
from regard.data.rows import Rows, Subset
from regard.data.table_format import BEFORE, Header, not_table_options
from regard.data.table_words import DELIMITER_HELP, ENCODING_HELP, HEADER_HELP
from regard.errors import InputError
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan, TableColumns
from regard.modalities.splits import check_splits, tolerated_rows
from regard.modalities.text.labelled import LabelledTexts
from regard.modalities.text.preparation import TEXT_PREPARATION, TOKENIZER_HELP, VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, Tables, no_files, paths_of


@dataclass(frozen=True)
class LabelledFiles:
    """Texts, or pairs of texts, with a label."""

    kind: Literal["labelled"] = "labelled"
    train: tuple[str, ...] = required_setting("training data: one tsv, csv or jsonl file")
    held_out: tuple[str, ...] = setting(
        (), "validation data: one file, evaluated during training; empty: a fraction of train"
    )
    test: tuple[str, ...] = setting((), "test data for `regard evaluate --split test`: one file")
    text: tuple[int | str, ...] = setting(
        (1,), "column of the text, or two columns, by number or name; for jsonl: keys"
    )
    label: int | str = setting(2, "column or key of the label")
    header: Header = setting("auto", HEADER_HELP)
    delimiter: str = setting(AUTO, DELIMITER_HELP)
    encoding: str = setting(AUTO, ENCODING_HELP)
    rows: int = setting(0, "number of rows of train to use, sampled with the seed; 0: all")
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of bad rows; above it the run does not start")
    budget: int = setting(4096, "batch size in tokens, including padding")
    longest: int = setting(
        0, "maximum sequence length in tokens; longer texts are truncated; 0: the model's limit, at most 512"
    )
    vocabulary: VocabularySettings = setting(VocabularySettings(), TOKENIZER_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(0, self, "longest", "rows") + no_files(self.train)
        if self.text is not None and len(self.text) not in (1, 2):
            wrong += [f"text = {list(self.text)} must name one or two columns"]
        wrong += not_table_options(self, *(self.text or ()), self.label)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def columns(data: Any) -> TableColumns:
    texts = tuple(data.text)
    return TableColumns((*texts, data.label), (*["text"] * len(texts), "label"), len(texts))


def open_labelled(plan: RunPlan) -> OpenedData:
    """The labels are those of train. Where few rows are asked for, they are drawn after a part was held out."""
    data, paths = plan.data, paths_of(plan)
    tables = Tables(plan, columns)
    train = LabelledTexts(tables.open("train", paths["train"]))
    tolerated_rows(train, data.bad, "data.train")  # of bad rows, the labels are not known
    if len(train.names) < 2:
        raise InputError(
            "all texts have the same label, so there is nothing to learn",
            where=str(only_file(paths["train"])),
            got=", ".join(map(repr, train.names)) or "none",
            fix="check that data.label names the column of the labels",
        )
    splits: dict[str, Rows] = {"train": train}
    for split in [split for split in paths if split != "train"]:
        splits[split] = LabelledTexts(tables.open(split, paths[split]), train.names)
    opened = check_splits(splits, data.bad, data.share, plan.seed, names=train.names, tables=tables.found)
    if 0 < data.rows < len(opened.splits["train"]):
        rows = opened.splits["train"]
        few = permutation(philox(HOLDOUT, plan.seed, 1), len(rows))[: data.rows]
        opened.splits["train"] = Subset(rows, few, rows.faults)
    return opened


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    return lambda i: rows[i].texts


def example(folder: Path) -> dict[str, Any]:
    rows = [f"the {one} sees a {other}\t{one}\n" for one in ANIMALS for other in ANIMALS]
    (folder / "labelled.tsv").write_text("".join(rows), "utf-8")
    return {"train": ["labelled.tsv"], "share": 0.2, "budget": 64, "longest": 10, "vocabulary": WORDS}


KIND = DataKind(
    LabelledFiles,
    ("text",),
    open_labelled,
    TEXT_PREPARATION,
    texts_of,
    PATHS,
    example=example,
    columns=columns,
    before=BEFORE,
    store="regard.modalities.text.storing:store_labelled",
)
