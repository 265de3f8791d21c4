"""Generated: coloured squares, discs and triangles before a busy background."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.rows import Rows
from regard.modalities.boxes.shapes import SHAPE_NAMES, Shapes
from regard.modalities.images.processor import Images
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS
from regard.nn.config import not_at_least, not_positive, refuse
from regard.train.runfile import setting

from .files import as_known

MEASURED = 300  # images that are held out, and as many to test on


@dataclass(frozen=True)
class DrawnShapes:
    """Generated images: coloured squares, discs and triangles on a cluttered background."""

    kind: Literal["shapes"] = "shapes"
    rows: int = setting(20000, "number of training images")
    side: int = setting(64, "image size: pixels of each side")
    most: int = setting(4, "maximum number of shapes in an image")
    batch: int = setting(32, "batch size in images")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "most", "batch"), not_at_least(16, self, "side"))


def open_shapes(plan: RunPlan) -> OpenedData:
    data = plan.data
    images = as_known(plan, Images(size=data.side, fit="within", mean=(0.5,), std=(0.25,)), usual=True)
    counts = zip(SPLITS, (data.rows, MEASURED, MEASURED), strict=True)
    splits: dict[str, Rows] = {
        split: Shapes(count, 3 * plan.seed + i, data.side, data.most) for i, (split, count) in enumerate(counts)
    }
    return OpenedData(splits, prepared=images, names=SHAPE_NAMES)


def example(folder: Path) -> dict[str, Any]:
    return {"rows": 8, "side": 16, "most": 2, "batch": 4}


KIND = DataKind(DrawnShapes, ("image",), open_shapes, example=example)
