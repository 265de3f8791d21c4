"""Plain text, in lines or as a whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.encodings import AUTO
from regard.data.files import only_file
from regard.data.rows import Rows
from regard.data.table_format import BEFORE, Header, not_table_options
from regard.data.table_words import DELIMITER_HELP, ENCODING_HELP, HEADER_HELP
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan, TableColumns
from regard.modalities.splits import check_splits
from regard.modalities.text.passages import open_passages
from regard.modalities.text.preparation import TEXT_PREPARATION, TOKENIZER_HELP, VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, Tables, no_files, paths_of


@dataclass(frozen=True)
class TextFiles:
    """Plain text. Where an example is a line, what is longer than the model reads is cut off."""

    kind: Literal["text"] = "text"
    train: tuple[str, ...] = required_setting("training data: one file of plain text, jsonl, tsv or csv")
    held_out: tuple[str, ...] = setting(
        (), "validation data: one file, evaluated during training; empty: a fraction of train"
    )
    test: tuple[str, ...] = setting((), "test data for `regard evaluate --split test`: one file")
    key: int | str = setting("text", "key of the text in jsonl, or its column in tsv or csv, by name or number")
    header: Header = setting("auto", HEADER_HELP)
    delimiter: str = setting(AUTO, DELIMITER_HELP)
    encoding: str = setting(AUTO, ENCODING_HELP)
    unit: Literal["line", "text"] = setting(
        "line", "line: each line is an example; text: the file is split into windows of the model's length"
    )
    share: float = setting(0.01, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of bad rows; above it the run does not start")
    budget: int = setting(4096, "batch size in tokens, including padding")
    longest: int = setting(0, "maximum length of a line or window in tokens; 0: the model's limit, or 512")
    vocabulary: VocabularySettings = setting(VocabularySettings(), TOKENIZER_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(0, self, "longest") + no_files(self.train)
        wrong += not_table_options(self)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def columns(data: Any) -> TableColumns:
    return TableColumns((data.key,), ("text",))


def open_text(plan: RunPlan) -> OpenedData:
    data = plan.data
    if data.unit == "text":
        return open_whole(plan)
    tables = Tables(plan, columns)
    splits: dict[str, Rows] = {split: tables.open_texts(split, files) for split, files in paths_of(plan).items()}
    return check_splits(splits, data.bad, data.share, plan.seed, tables=tables.found)


def open_whole(plan: RunPlan) -> OpenedData:
    """Whole texts; without a file for it, the end of the text is held out."""
    texts = {split: open_passages(only_file(files), plan.data.encoding) for split, files in paths_of(plan).items()}
    if "held_out" not in texts:
        texts["train"], texts["held_out"] = texts["train"].cut(plan.data.share)
    return OpenedData(dict(texts))


def example(folder: Path) -> dict[str, Any]:
    lines = [f"the {one} sees a {other} today\n" for one in ANIMALS for other in ANIMALS]
    (folder / "text.txt").write_text("".join(lines), "utf-8")
    return {"train": ["text.txt"], "share": 0.2, "budget": 64, "longest": 10, "vocabulary": WORDS}


KIND = DataKind(
    TextFiles,
    ("text",),
    open_text,
    TEXT_PREPARATION,
    paths=PATHS,
    example=example,
    columns=columns,
    before=BEFORE,
    store="regard.modalities.text.storing:store_texts",
)
