"""Pairs of texts: sentences and their translations, or sentences that mean the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.files import pair_rows
from regard.data.rows import Rows
from regard.modalities.rows import DataKind, OpenedData, RunPlan
from regard.modalities.splits import check_splits
from regard.modalities.text.preparation import HOW, TEXT, VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

from .files import ANIMALS, PATHS, WORDS, no_files, paths_of


@dataclass(frozen=True)
class PairFiles:
    """Sentences and their translations."""

    kind: Literal["pairs"] = "pairs"
    train: tuple[str, ...] = required_setting(
        "one tsv, csv or jsonl file, or two plain files of which line i belongs to line i"
    )
    held_out: tuple[str, ...] = setting(
        (), "files of the same form to evaluate on while training; none: a share of train"
    )
    test: tuple[str, ...] = setting((), "files of the same form for `regard evaluate --split test`")
    columns: tuple[int | str, ...] = setting(
        (1, 2), "of a tsv or csv: source and target, by number or name; of jsonl: the keys"
    )
    share: float = setting(0.01, "what is held out of train, where no files are given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "batch size in tokens, source and target, padding included")
    longest: int = setting(128, "tokens of a sentence; the rest is cut off")
    vocabulary: VocabularySettings = setting(VocabularySettings(), HOW)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + not_at_least(2, self, "longest")
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"), no_files(self.train))


def open_pairs(plan: RunPlan) -> OpenedData:
    splits: dict[str, Rows] = {split: pair_rows(files, plan.data.columns) for split, files in paths_of(plan).items()}
    return check_splits(splits, plan.data.bad, plan.data.share, plan.seed)


def example(folder: Path) -> dict[str, Any]:
    rows = [f"the {one} sees a {other}\ta {other} sees the {one}\n" for one in ANIMALS for other in ANIMALS]
    (folder / "pairs.tsv").write_text("".join(rows), "utf-8")
    return {"train": ["pairs.tsv"], "share": 0.2, "budget": 96, "longest": 10, "vocabulary": WORDS}


KIND = DataKind(PairFiles, ("text",), open_pairs, TEXT, paths=PATHS, example=example)
