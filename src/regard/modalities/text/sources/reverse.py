"""Generated: sequences of number words and their reversals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.text.preparation import GENERATED_TEXT_PREPARATION
from regard.modalities.text.reversal import Reversal
from regard.nn.config import not_at_least, not_positive, refuse
from regard.train.runfile import setting

MEASURED = 200  # rows that are held out, and as many to test on


@dataclass(frozen=True)
class Reverse:
    """Generated: sequences of number words and their reversals."""

    kind: Literal["reverse"] = "reverse"
    rows: int = setting(4000, "number of training examples")
    longest: int = setting(8, "maximum length in words")
    budget: int = setting(1024, "batch size in tokens of source and target, including padding")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "budget"), not_at_least(2, self, "longest"))


def open_reversed(plan: RunPlan) -> OpenedData:
    data, seed = plan.data, plan.seed
    return OpenedData(
        {
            "train": Reversal(data.rows, data.longest, seed),
            "held_out": Reversal(MEASURED, data.longest, seed + 1),
            "test": Reversal(MEASURED, data.longest, seed + 2),
        }
    )


def example(folder: Path) -> dict[str, Any]:
    return {"rows": 16, "longest": 4, "budget": 96}


KIND = DataKind(Reverse, ("text",), open_reversed, GENERATED_TEXT_PREPARATION, example=example)
