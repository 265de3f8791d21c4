"""Images from files as a stream of batches, to be measured: (b, 1 or 3, height, width), uint8.

What draws images is measured in the same way: any iterable of such batches will do.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.faults import DamagedError
from regard.data.locations import DataPlace, open_place, shown_path
from regard.errors import InputError
from regard.modalities.images.idx import of_axes
from regard.modalities.images.medium import SUFFIXES
from regard.modalities.images.pixels import PIXELS, in_words, load_image, upright
from regard.modalities.images.processor import channels_first
from regard.modalities.images.sheets import cut_sheet

from .feature_networks import FeatureNetwork
from .scores import Features, FeatureSums

Pixels = NDArray[np.uint8]  # (h, w) or (h, w, 3)
MODEL_FILES = ("regard.json", "run.toml", "config.json")
Report = Callable[[int, float], None]  # images done so far, and the seconds that they took


@dataclass(frozen=True)
class ImageSource:
    """Images by number; each is read when it is asked for."""

    name: str
    count: int
    take: Callable[[int], Pixels]


def open_source(path: Path, tile: int = 0) -> ImageSource:
    """A folder or a .zip archive of images, an idx file, or with the side of a ``tile`` a sheet of tiles."""
    path = Path(path)
    if tile:
        return sheet_source(path, tile)
    if path.is_file() and "-ubyte" in path.name:
        pixels = of_axes(path, 3)
        return ImageSource(str(path), len(pixels), lambda i: np.array(pixels[i]))
    if path.is_dir() and any((path / name).is_file() for name in MODEL_FILES):
        raise InputError(
            "a model folder has no images to compare", where=str(path), fix="let it draw images, and give their folder"
        )
    return place_source(open_place(path))


def place_source(place: DataPlace) -> ImageSource:
    """All images, in folders within too."""
    names = [name for name in place.names() if name.lower().endswith(SUFFIXES)]
    others = [name for name in place.names() if "-ubyte" in name]
    if not names:
        raise InputError(
            "no images found",
            where=str(place.path),
            got=", ".join(others[:4]) or f"{len(place.names())} other files",
            expected=f"files such as {', '.join(SUFFIXES[:3])}",
            fix="give the path of one idx file" if others else "",
        )

    def take(i: int) -> Pixels:
        try:
            image = load_image(place.read(names[i]))
            with in_words(PIXELS):
                return np.asarray(upright(image))
        except DamagedError as reason:
            where = shown_path(place, names[i])
            fix = "remove or replace it, for a set without it is another set"
            raise InputError("the image cannot be read", where=where, got=str(reason), fix=fix) from None

    return ImageSource(str(place.path), len(names), take)


def sheet_source(path: Path, tile: int) -> ImageSource:
    """All tiles; black ones after the last image count too, so the sheet should be full."""
    if not path.is_file():
        raise InputError("a sheet of tiles is one image file", where=str(path), got="a folder or nothing")
    pixels = cut_sheet(path, (tile, tile))
    columns = pixels.shape[2]
    return ImageSource(str(path), pixels.shape[0] * columns, lambda i: np.array(pixels[i // columns, :, i % columns]))


def picked(source: ImageSource, samples: int) -> list[int]:
    """Which images: all, or so many drawn at random, for the first ones may all be of one class."""
    if samples > source.count:
        raise InputError(
            "there are fewer images than asked for", where=source.name, got=str(source.count), expected=str(samples)
        )
    if not samples:
        return list(range(source.count))
    order: list[int] = torch.randperm(source.count, generator=torch.Generator().manual_seed(0))[:samples].tolist()
    return sorted(order)


def source_batches(source: ImageSource, size: int, samples: int = 0) -> Iterator[Tensor]:
    """In order; a batch ends early where the next image is of another size or has colours."""
    waiting: list[Tensor] = []
    for i in picked(source, samples):
        image = channels_first(np.array(source.take(i)))
        if waiting and (len(waiting) == size or waiting[0].shape != image.shape):
            yield torch.stack(waiting)
            waiting = []
        waiting.append(image)
    if waiting:
        yield torch.stack(waiting)


class Sizes:
    """What images a stream had, and what of them a network does not see as it was."""

    def __init__(self) -> None:
        self.images = self.grey = 0
        self.sizes: dict[tuple[int, int], int] = {}  # width and height

    def watch(self, batches: Iterable[Tensor]) -> Iterator[Tensor]:
        for batch in batches:
            self.images += len(batch)
            self.grey += len(batch) if batch.shape[1] == 1 else 0
            size = (batch.shape[3], batch.shape[2])
            self.sizes[size] = self.sizes.get(size, 0) + len(batch)
            yield batch

    def notes(self, channels: int) -> list[str]:
        told = []
        if channels == 3 and self.grey:
            told.append(f"{self.grey:,} of {self.images:,} images are grey: all three colours are set to their shade")
        if channels == 1 and self.grey < self.images:
            told.append(f"{self.images - self.grey:,} of {self.images:,} images in colour are made grey")
        if len(self.sizes) > 1:
            least, most = min(self.sizes), max(self.sizes)
            told.append(
                f"images of {len(self.sizes)} sizes, from {least[0]} x {least[1]} to {most[0]} x {most[1]}: each is "
                "resized by itself"
            )
        return told

    def as_dict(self) -> dict[str, Any]:
        sizes = [{"width": width, "height": height, "images": n} for (width, height), n in sorted(self.sizes.items())]
        return {"images": self.images, "grey": self.grey, "sizes": sizes[:20]}


def measure(network: FeatureNetwork, batches: Iterable[Tensor], report: Report = lambda done, spent: None) -> Features:
    """The features of a stream of images."""
    sums, start = FeatureSums(network.name, network.resize), time.monotonic()
    for batch in batches:
        seen = network.see(batch)
        sums.add(seen.features, seen.probabilities)
        report(sums.samples, time.monotonic() - start)
    return sums.features()
