"""Generated: the images of ``scenes`` without their captions, from which an autoencoder learns to draw them again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.data.rows import Rows
from regard.modalities.captions.scenes import Scenes
from regard.modalities.images.augmentation import NONE, Augment
from regard.modalities.images.processor import Images, LabelledImage
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.splits import SPLITS
from regard.nn.config import not_positive, refuse
from regard.train.runfile import setting

MEASURED = 200  # images that are held out, and as many to test on


@dataclass(frozen=True)
class DrawnSceneImages:
    """Generated: images of one or two coloured shapes, without captions."""

    augment: ClassVar[Augment] = NONE

    kind: Literal["scene-images"] = "scene-images"
    rows: int = setting(4000, "number of training examples")
    batch: int = setting(32, "batch size in images")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "batch"))


class SceneImages:
    """Rows: of scenes, the images; none has a label."""

    lengths = None
    faults = ()

    def __init__(self, scenes: Scenes) -> None:
        self.scenes = scenes

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, i: int) -> LabelledImage:
        return LabelledImage(self.scenes[i].image, 0)

    def where(self, i: int) -> str:
        return self.scenes.where(i)


def open_scene_images(plan: RunPlan) -> OpenedData:
    """At the size of the model; the same scenes as those with captions, for the same seed."""
    images = Images(size=plan.config.image, channels=plan.config.channels)
    counts = zip(SPLITS, (plan.data.rows, MEASURED, MEASURED), strict=True)
    splits: dict[str, Rows] = {
        split: SceneImages(Scenes(count, images, plan.seed + i)) for i, (split, count) in enumerate(counts)
    }
    return OpenedData(splits, prepared=images)


def example(folder: Path) -> dict[str, Any]:
    return {"rows": 8, "batch": 4}


KIND = DataKind(DrawnSceneImages, ("image",), open_scene_images, example=example)
