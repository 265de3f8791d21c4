"""Questions, each with a text in which its answer stands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.files import only_file, table_rows
from regard.data.rows import Rows
from regard.modalities.rows import DataKind, OpenedData, RunPlan
from regard.modalities.splits import check_splits
from regard.modalities.text.preparation import HOW, TEXT, VocabularySettings
from regard.modalities.text.questions import Questions
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, no_files, paths_of

LEAST = 16  # tokens in which a question and some of its text find room


@dataclass(frozen=True)
class AnswerFiles:
    """Questions, each with a text in which its answer stands."""

    kind: Literal["answers"] = "answers"
    train: tuple[str, ...] = required_setting("one tsv, csv or jsonl file")
    held_out: tuple[str, ...] = setting((), "a file to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "a file for `regard evaluate --split test`")
    question: int | str = setting(1, "the column of the question, by number or name; of jsonl: the key")
    context: int | str = setting(2, "the column or key of the text that answers it")
    answer: int | str = setting(3, "the column or key of the answer, as it stands in that text")
    start: int | str = setting(
        "", "the column or key of the place where the answer begins there, in letters from 0; none: where it first is"
    )
    share: float = setting(0.1, "what is held out of train, where no file is given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "batch size in tokens, padding included")
    longest: int = setting(
        0, "tokens of question and text: of a longer text, a part with the answer; 0: what the model reads, at most 512"
    )
    vocabulary: VocabularySettings = setting(VocabularySettings(), HOW)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(0, self, "longest") + no_files(self.train)
        if self.longest is not None and 0 < self.longest < LEAST:
            wrong += [f"longest = {self.longest} is neither 0 nor at least {LEAST}"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


def open_answers(plan: RunPlan) -> OpenedData:
    data = plan.data
    columns = [data.question, data.context, data.answer, *([] if data.start == "" else [data.start])]
    splits: dict[str, Rows] = {
        split: Questions(table_rows(only_file(files), columns)) for split, files in paths_of(plan).items()
    }
    return check_splits(splits, data.bad, data.share, plan.seed)


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    def texts(i: int) -> Sequence[str]:
        row = rows[i]
        return row.question, row.context

    return texts


def example(folder: Path) -> dict[str, Any]:
    rows = [f"who runs\tthe {one} runs to a {other}\t{one}\n" for one in ANIMALS for other in ANIMALS if one != other]
    (folder / "answers.tsv").write_text("".join(rows), "utf-8")
    return {"train": ["answers.tsv"], "share": 0.2, "budget": 128, "longest": LEAST, "vocabulary": WORDS}


KIND = DataKind(AnswerFiles, ("text",), open_answers, TEXT, texts_of, PATHS, example=example)
