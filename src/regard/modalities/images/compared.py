"""Models that see images, put to work."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.modalities.compared import without_dropout
from regard.tasks.classify import Classify, ClassifyBatch
from regard.tasks.task import Task

CLASSES = 8  # directions of waves


class Visual:
    """Tells the direction of waves in an image; lengths are patches, as many as make a square."""

    unit = "patches"
    data = f"generated images: waves in {CLASSES} directions"

    def __init__(self, config: Any) -> None:
        self.patch, self.channels = config.patch, config.channels

    def real(self, length: int) -> int:
        return self.side(length) ** 2

    def side(self, length: int) -> int:
        return max(round(math.sqrt(length)), 1)

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        return {"image": self.side(length) * self.patch, "classes": CLASSES} | without_dropout(config)

    def notes(self, config: Any, lengths: Sequence[int]) -> list[str]:
        told = [f"The classification head has {CLASSES} classes."]
        if odd := [f"{self.real(x):,} for {x:,}" for x in lengths if self.real(x) != x]:
            squares = "Lengths are numbers of patches in a square image and are rounded to squares"
            told.append(f"{squares}: {', '.join(odd)}.")
        return told

    def task(self, net: nn.Module) -> Task:
        return Classify(net, [str(i) for i in range(CLASSES)])

    def one(self, length: int) -> ClassifyBatch:
        return self.some(1, length, np.random.default_rng(0))

    def some(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool = False) -> ClassifyBatch:
        """Each wave is half a patch long, begins anywhere, and is in all colours alike."""
        places = np.arange(self.side(length) * self.patch)
        labels = numbers.integers(0, CLASSES, rows)
        angles, begins = labels * np.pi / CLASSES, 2 * np.pi * numbers.random(rows)
        along = np.cos(angles)[:, None, None] * places + np.sin(angles)[:, None, None] * places[:, None]
        waves = np.sin(along * (4 * np.pi / self.patch) + begins[:, None, None])[:, None]
        noise = numbers.standard_normal((rows, self.channels, len(places), len(places)), np.float32)
        return ClassifyBatch(torch.from_numpy((waves + noise).astype(np.float32)), torch.from_numpy(labels))

    def outputs(self, net: Any, batch: ClassifyBatch) -> Tensor:
        """The states of all patches: a head that has learned nothing is zero."""
        found: Tensor = net.features(batch.inputs)
        return found

    def writer(self, net: nn.Module, batch: ClassifyBatch, room: int) -> None:
        return None


def images(config: Any, text: Path | None, seed: int) -> Visual:
    """What a family's row names; texts are of no use."""
    if text is None:
        return Visual(config)
    what = "--data requires a text model; image models are compared on generated images"
    raise InputError(what, where=str(text), fix="remove --data")
