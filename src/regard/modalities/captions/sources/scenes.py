"""Generated: one or two coloured shapes, and a sentence that says so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.rows import Rows
from regard.modalities.captions.preparation import GENERATED_CAPTION_PREPARATION
from regard.modalities.captions.scenes import Scenes
from regard.modalities.images.processor import Images
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS
from regard.nn.config import not_at_least, not_positive, refuse
from regard.train.runfile import setting

MEASURED = 200  # images that are held out, and as many to test on


@dataclass(frozen=True)
class DrawnScenes:
    """Generated: one or two coloured shapes, and a sentence that says so."""

    kind: Literal["scenes"] = "scenes"
    rows: int = setting(4000, "number of training examples")
    batch: int = setting(32, "batch size in images")
    longest: int = setting(32, "maximum length of a caption in tokens; longer captions are truncated")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "batch"), not_at_least(2, self, "longest"))


def open_scenes(plan: RunPlan) -> OpenedData:
    """At the size of the model."""
    images = Images(size=plan.config.image, channels=plan.config.channels)
    counts = zip(SPLITS, (plan.data.rows, MEASURED, MEASURED), strict=True)
    splits: dict[str, Rows] = {split: Scenes(count, images, plan.seed + i) for i, (split, count) in enumerate(counts)}
    return OpenedData(splits, prepared=images)


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    return lambda i: [rows[i].caption]


def example(folder: Path) -> dict[str, Any]:
    return {"rows": 8, "batch": 4, "longest": 10}


KIND = DataKind(DrawnScenes, ("image", "text"), open_scenes, GENERATED_CAPTION_PREPARATION, texts_of, example=example)
