"""The digits that scikit-learn carries."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.data.rows import Rows
from regard.modalities.images.augmentation import Augment
from regard.modalities.images.batching import PreparedRows, not_batches
from regard.modalities.images.digits import COUNT, TEST, Digits
from regard.modalities.images.preparation import (
    AUGMENT_HELP,
    DEVIATION_HELP,
    HALF,
    MEAN_HELP,
    SIZE_HELP,
    example_size,
    image_settings,
    source_processor,
)
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import check_splits
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import setting


@dataclass(frozen=True)
class DigitImages:
    """The 1,797 digits of 8 x 8 pixels in scikit-learn; the last 297 are the test split."""

    fit: ClassVar[Literal["stretch"]] = "stretch"  # they are squares, and none is bad
    bad: ClassVar[float] = 0.0

    kind: Literal["digits"] = "digits"
    share: float = setting(0.1, "fraction of the other digits to hold out for validation")
    batch: int = setting(64, "batch size in images")
    size: int = setting(0, SIZE_HELP)
    mean: tuple[float, ...] = setting(HALF, MEAN_HELP)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION_HELP)
    augment: Augment = setting(Augment(), AUGMENT_HELP)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + not_at_least(0, self, "size")
        wrong += not_batches(self.deviation, self.batch, self.augment)
        refuse(wrong, not_shares(self, "share"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF


def open_digits(plan: RunPlan) -> OpenedData:
    data, images = plan.data, image_settings(plan, plan.data.size)
    learned = Digits(source_processor(images, data.augment.area), 0, COUNT - TEST)
    splits: dict[str, Rows] = {"train": learned, "test": Digits(images, COUNT - TEST, COUNT)}
    opened = check_splits(splits, data.bad, data.share, plan.seed, images, Digits.labels)
    if data.augment.area < 1:
        opened.splits["held_out"] = PreparedRows(opened.splits["held_out"], images)
    return opened


def example(folder: Path) -> dict[str, Any]:
    return {"batch": 8}


KIND = DataKind(DigitImages, ("image",), open_digits, example=example, example_for=example_size)
