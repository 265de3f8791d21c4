"""Questions, each with a text in which its answer stands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.encodings import AUTO
from regard.data.rows import Rows
from regard.data.table_format import BEFORE, Header, not_table_options
from regard.data.table_words import DELIMITER_HELP, ENCODING_HELP, HEADER_HELP
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan, TableColumns
from regard.modalities.splits import check_splits
from regard.modalities.text.preparation import TEXT_PREPARATION, TOKENIZER_HELP, VocabularySettings
from regard.modalities.text.questions import Questions
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, Tables, no_files, paths_of

ROLES = ("question", "context", "answer", "start")
LEAST = 16  # tokens in which a question and some of its text find room


@dataclass(frozen=True)
class AnswerFiles:
    """Questions, each with a text in which its answer stands."""

    kind: Literal["answers"] = "answers"
    train: tuple[str, ...] = required_setting("training data: one tsv, csv or jsonl file")
    held_out: tuple[str, ...] = setting(
        (), "validation data: one file, evaluated during training; empty: a fraction of train"
    )
    test: tuple[str, ...] = setting((), "test data for `regard evaluate --split test`: one file")
    question: int | str = setting(1, "column of the question, by number or name; for jsonl: the key")
    context: int | str = setting(2, "column or key of the context that holds the answer")
    answer: int | str = setting(3, "column or key of the answer, exactly as it occurs in the context")
    start: int | str = setting(
        "", "column or key of the answer's start in the context, in characters from 0; empty: its first occurrence"
    )
    header: Header = setting("auto", HEADER_HELP)
    delimiter: str = setting(AUTO, DELIMITER_HELP)
    encoding: str = setting(AUTO, ENCODING_HELP)
    share: float = setting(0.1, "fraction of train to hold out for validation if held_out is empty")
    bad: float = setting(0.01, "maximum fraction of bad rows; above it the run does not start")
    budget: int = setting(4096, "batch size in tokens, including padding")
    longest: int = setting(
        0,
        "maximum length of question and context in tokens; longer contexts are cut around the answer; 0: the "
        "model's limit, at most 512",
    )
    vocabulary: VocabularySettings = setting(VocabularySettings(), TOKENIZER_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(0, self, "longest") + no_files(self.train)
        if self.longest is not None and 0 < self.longest < LEAST:
            wrong += [f"longest = {self.longest} is not 0 or at least {LEAST}"]
        wrong += not_table_options(self, self.question, self.context, self.answer, self.start)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def columns(data: Any) -> TableColumns:
    own = (data.question, data.context, data.answer, *([] if data.start == "" else [data.start]))
    return TableColumns(own, ROLES[: len(own)], 2)


def open_answers(plan: RunPlan) -> OpenedData:
    data = plan.data
    tables = Tables(plan, columns)
    splits: dict[str, Rows] = {split: Questions(tables.open(split, files)) for split, files in paths_of(plan).items()}
    return check_splits(splits, data.bad, data.share, plan.seed, tables=tables.found)


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    def texts(i: int) -> Sequence[str]:
        row = rows[i]
        return row.question, row.context

    return texts


def example(folder: Path) -> dict[str, Any]:
    rows = [f"who runs\tthe {one} runs to a {other}\t{one}\n" for one in ANIMALS for other in ANIMALS if one != other]
    (folder / "answers.tsv").write_text("".join(rows), "utf-8")
    return {"train": ["answers.tsv"], "share": 0.2, "budget": 128, "longest": LEAST, "vocabulary": WORDS}


KIND = DataKind(
    AnswerFiles,
    ("text",),
    open_answers,
    TEXT_PREPARATION,
    texts_of,
    PATHS,
    example=example,
    columns=columns,
    before=BEFORE,
    store="regard.modalities.text.storing:store_answers",
)
