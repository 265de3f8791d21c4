"""Images with labels, and how an image becomes what a net takes.

    folder/LABEL/name.png ...                    the folders' names, sorted, are the labels
    folder/labels.tsv, folder/name.png ...       a file and its label in each line; labels.csv likewise

Either may be a zip archive too. The content of a file says what it is, not its name.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from regard.data.encodings import decoded_bytes
from regard.data.faults import DamagedError, Fault, printable
from regard.data.locations import DataFolder, DataPlace, open_place, shown_path
from regard.data.rows import IntegerArray
from regard.data.table_format import delimiter_of_text, has_quotes
from regard.errors import ConfigError, InputError, first_of
from regard.nn.config import not_positive, parse, refuse

from .checks import ImageCheck, check_images
from .medium import SUFFIXES
from .pixels import (
    LARGE,
    PIXELS,
    channel,
    check_and_load,
    convert_mode,
    in_words,
    is_grey,
    is_simple,
    load_image,
    upright,
)

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
TABLES = {"labels.tsv": "\t", "labels.csv": ","}
HEADINGS = ("file", "filename", "file_name", "image", "path")  # of a table's first column


@dataclass(frozen=True, kw_only=True)
class Images:
    """How images are resized, cropped and normalised. Saved with the model."""

    size: int | None = 224  # of both sides, or of the longer; None leaves each image as it is
    fit: Literal["stretch", "crop", "within"] = "stretch"  # the whole image, a square from its middle, or its own form
    shorter: int | None = None  # what the shorter side, or for "stretch" both, is scaled to before the middle is cut
    # out; for "within", what it is scaled to unless the longer one would then be above the size
    margin: Literal["round", "floor"] = "round"  # half of what is cut off, where that is no whole pixel
    filter: Literal["nearest", "box", "bilinear", "bicubic", "lanczos"] = "bilinear"
    channels: int = 3  # or 1: grey
    mean: tuple[float, ...] = (0.5,)  # one for all channels or one for each, where black is 0 and white 1
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        refuse(not_positive(self, "size", "shorter", "channels"), *self.problems())

    def problems(self) -> Iterator[list[str]]:
        """A field that could not be read is None here."""
        if self.size is not None and self.size**2 > PIXELS:
            yield [f"size = {self.size} gives images of more than {PIXELS} pixels"]
        if self.channels not in (None, 1, 3):
            yield [f"channels = {self.channels} is not 1 or 3"]
        if self.shorter is not None and self.fit == "within" and (self.size is None or self.shorter > self.size):
            yield [f"shorter = {self.shorter} needs a size of at least that: the limit of the longer side"]
        if self.shorter is not None and self.fit != "within" and (self.size is None or self.shorter < self.size):
            yield [f"shorter = {self.shorter} needs a size of at most that: the size of the crop"]
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is not None and len(values) not in (1, self.channels):
                yield [f"{name} has {len(values)} values instead of 1 or one for each of the {self.channels} channels"]
        if self.std is not None and not all(value > 0 for value in self.std):
            yield [f"std = {list(self.std)} is not above 0"]

    def prepare(self, image: Image.Image) -> Tensor:
        """An image as ``pixels.decoded`` gives it  -> (c, h, w), uint8"""
        image = convert_mode(image, "L" if self.channels == 1 else "RGB")
        if self.size is not None:
            image = self.scaled(image, self.size)
        return channels_first(np.array(image))

    def shrink(self, image: Image.Image) -> Tensor:
        """The same of an image as ``pixels.load_image`` gives it. Of a large one that must be converted or turned, one
        channel after the other is made small: all at once would be as large as the image again, and more."""
        if self.size is None or is_simple(image) or image.width * image.height <= LARGE:
            with in_words(PIXELS):
                image = upright(image)
            return self.prepare(image)
        mode = "L" if self.channels == 1 or is_grey(image) else "RGB"
        with in_words(PIXELS):
            small = [self.scaled(channel(image, mode, i), self.size) for i in range(len(mode))]
        whole = small[0] if mode == "L" else Image.merge("RGB", small)
        return channels_first(np.array(convert_mode(whole, "L" if self.channels == 1 else "RGB")))

    def prepare_pixels(self, pixels: NDArray[np.uint8]) -> Tensor:
        """The same of (h, w) or (h, w, 3). What is as it should be is only copied, which is many times as fast."""
        square = (self.size, self.size) if self.channels == 1 else (self.size, self.size, 3)
        if pixels.shape == square and self.shorter in (None, self.size):
            return channels_first(np.array(pixels))
        return self.prepare(Image.fromarray(pixels))

    def scaled(self, image: Image.Image, size: int) -> Image.Image:
        """To size x size, or within. Of what is cut off nothing is computed: a line of pixels would become a huge image
        else."""
        width, height = image.size
        if self.fit == "within":
            return image.resize(self.within(width, height), FILTERS[self.filter])
        wide = high = shorter = self.shorter or size
        if self.fit == "crop":
            wide, high = shorter * width // min(width, height), shorter * height // min(width, height)
        half = round if self.margin == "round" else math.floor
        left, top = half((wide - size) / 2), half((high - size) / 2)
        across, down = width / wide, height / high
        box = (left * across, top * down, min(width, (left + size) * across), min(height, (top + size) * down))
        return image.resize((size, size), FILTERS[self.filter], box)

    def within(self, width: int, height: int) -> tuple[int, int]:
        """What an image of this width and height becomes. Of "within", its longer side is the size, or its shorter one
        is ``shorter``, whichever makes it smaller; a line keeps a pixel."""
        longer = max(width, height)
        if self.fit != "within" or self.size is None:
            return (width, height) if self.size is None else (self.size, self.size)
        if self.shorter is not None:
            short, long = limited(min(width, height), longer, self.shorter, self.size)
            return (short, long) if width < height else (long, short)
        return max(round(width * self.size / longer), 1), max(round(height * self.size / longer), 1)

    def read(self, path: Path) -> Tensor:
        """Read and prepare one image file.  -> (c, h, w), uint8"""
        path = Path(path)
        return self.take(DataFolder(path.parent), path.name)

    def take_image(self, image: Image.Image) -> Tensor:
        """Prepare an image that is already open.  -> (c, h, w), uint8"""
        try:
            return self.shrink(check_and_load(image))
        except DamagedError as reason:
            raise InputError("the image cannot be used", got=str(reason)) from None

    def take(self, place: DataPlace, name: str) -> Tensor:
        try:
            return self.shrink(load_image(place.read(name)))
        except DamagedError as reason:
            raise InputError("the image cannot be read", where=shown_path(place, name), got=str(reason)) from None

    def normalise(self, pixels: Tensor) -> Tensor:
        """Scale to 0 to 1 and normalise by mean and deviation: (..., c, h, w), 0 to 255 -> the same shape, float32"""
        mean, std = (torch.tensor(x, device=pixels.device)[:, None, None] for x in (self.mean, self.std))
        return (pixels / 255 - mean) / std

    def enter(self, net: nn.Module, pixels: Tensor) -> Tensor:
        """The same in the precision of a net's weights, which a file may keep in float64."""
        return self.normalise(pixels).to(next((x.dtype for x in net.parameters()), torch.float32))

    @property
    def media(self) -> dict[str, "Images"]:
        return {"image": self}

    def files(self) -> dict[str, bytes]:
        return {}

    def to_data(self) -> dict[str, Any]:
        return {"kind": "images", **asdict(self), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> "Images":
        """Read what ``to_data`` returned, strictly; ``where`` names the file for errors."""
        if data.get("kind") != "images":
            raise ConfigError("not an image processor", where=where, got=f"kind = {data.get('kind')!r}"[:100])
        try:
            return parse(cls, {key: value for key, value in data.items() if key != "kind"})
        except ValueError as error:
            problems = "".join(f"\n    {line}" for line in str(error).split("\n"))
            raise ConfigError("invalid image processor", where=where, got=problems) from None


def limited(short: int, long: int, shorter: int, longest: int) -> tuple[int, int]:
    """Two sides, scaled until the first is ``shorter`` or the second ``longest``, and rounded as DETR's own code does
    it, so that its weights see the very pixels they know."""
    wanted = float(shorter)
    if long / short * shorter > longest:
        wanted = longest * short / long
    first = round(wanted)
    return max(first, 1), long if first == short else max(int(wanted * long / short), 1)


def channels_first(pixels: NDArray[np.uint8]) -> Tensor:
    """(h, w) or (h, w, 3) -> (c, h, w)"""
    tensor = torch.from_numpy(pixels)
    return tensor[None] if tensor.ndim == 2 else tensor.permute(2, 0, 1).contiguous()


class LabelledImage(NamedTuple):
    """One example."""

    image: Tensor  # (c, h, w), uint8
    label: int


class LabelledImages:
    """Rows: images that are read when asked for, each with the number of its label."""

    def __init__(
        self,
        place: DataPlace,
        names: Sequence[str],
        targets: Sequence[int],
        labels: Sequence[str],
        images: Images,
        faults: Sequence[Fault],
        lengths: IntegerArray | None,
    ) -> None:
        self.place, self.names, self.images = place, tuple(names), images
        self.targets: NDArray[np.int64] = np.array(targets, np.int64)
        self.row_labels = self.targets
        self.labels, self.faults, self.lengths = tuple(labels), tuple(faults), lengths

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> LabelledImage:
        if not 0 <= i < len(self):
            raise IndexError(f"image index {i} is out of range for {len(self)} images")
        return LabelledImage(self.images.take(self.place, self.names[i]), int(self.targets[i]))

    def where(self, i: int) -> str:
        return shown_path(self.place, self.names[i])


class Named(NamedTuple):
    """An image, its label, and who says so."""

    name: str
    label: str
    file: str
    line: int  # 0: the image lies in the label's folder


def open_images(
    path: Path, images: Images, labels: Sequence[str] | None = None, whose: str = "the training data"
) -> LabelledImages:
    """Images in a folder or a zip archive. Pass the ``labels`` of the training data to read other data for the same
    net, so that each label keeps its index. ``whose`` names their source in errors about unknown labels."""
    place = open_place(path)
    names = place.names()
    tables = [name for name in TABLES if name in names]
    if len(tables) > 1:
        raise InputError("more than one label table found", where=str(path), got=" and ".join(tables), expected="one")
    faults = [] if tables else list(place.faults)  # with a table, only what it names matters
    named = list(in_table(place, tables[0], faults) if tables else in_folders(place, names, faults))
    if not named:
        raise InputError(
            "no images found",
            where=str(path),
            got="; ".join(map(str, faults[:3])) or f"{len(names)} files, none of them usable",
            expected="one folder of images per label, or labels.tsv with a file and its label in each line",
        )
    known = tuple(sorted({row.label for row in named}) if labels is None else labels)
    numbers = {label: i for i, label in enumerate(known)}
    if unknown := sorted({row.label for row in named} - numbers.keys()):
        raise InputError(
            f"some labels do not occur in {whose}",
            where=str(path),
            got=", ".join(first_of(unknown)),
            expected=", ".join(first_of(known)),
            fix=f"add them to {whose} or remove these images",
        )
    findings = check_images(place, [row.name for row in named])
    good = [i for i, finding in enumerate(findings) if not finding.reason]
    faults += [fault(row, finding) for row, finding in zip(named, findings, strict=True) if finding.reason]
    return LabelledImages(
        place,
        [named[i].name for i in good],
        [numbers[named[i].label] for i in good],
        known,
        images,
        faults,
        pixel_counts([findings[i] for i in good], images),
    )


def pixel_counts(findings: Sequence[ImageCheck], images: Images) -> NDArray[np.int64] | None:
    """What each image costs, if they are not all of one size."""
    if images.size is not None and images.fit != "within":
        return None
    sides = np.array([images.within(finding.width, finding.height) for finding in findings], np.int64)
    return sides.reshape(-1, 2).prod(1)


def fault(row: Named, finding: ImageCheck) -> Fault:
    if not row.line:
        return Fault(row.file, 0, finding.reason)
    return Fault(row.file, row.line, f"{printable(row.name)}: {finding.reason}")


def in_folders(place: DataPlace, names: Sequence[str], faults: list[Fault]) -> Iterator[Named]:
    """The first folder of each path is the label. Beside those folders there may be other files, but no images."""
    for name in names:
        label, slash, _ = name.partition("/")
        if slash and label.isprintable():
            yield Named(name, label, shown_path(place, name), 0)
        elif slash:
            faults.append(Fault(shown_path(place, name), 0, "the label (folder name) contains unprintable characters"))
        elif name.lower().endswith(SUFFIXES):
            faults.append(Fault(shown_path(place, name), 0, "not inside a label folder"))


def in_table(place: DataPlace, table: str, faults: list[Fault]) -> Iterator[Named]:
    """A file and its label in each line; the first line may be a heading."""
    file = shown_path(place, table)
    try:
        text = decoded_bytes(place.read(table))
    except (DamagedError, UnicodeDecodeError) as error:
        raise InputError("the label table cannot be read", where=file, got=str(error)) from None
    sign = delimiter_of_text(text, (1, 2), TABLES[table])
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes(sign, TABLES[table]) else csv.QUOTE_NONE
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=sign, quoting=quoting, strict=True)
    seen: dict[str, int] = {}
    while True:
        try:
            fields = [field.strip() for field in next(lines)]
        except StopIteration:
            return
        except csv.Error as error:
            faults.append(Fault(file, lines.line_num, str(error)))
            continue
        line = lines.line_num
        if not any(fields) or (line == 1 and fields[0].lower() in HEADINGS):
            continue
        if reason := no_row(fields, seen):
            faults.append(Fault(file, line, reason))
            continue
        seen[fields[0]] = line
        yield Named(fields[0], fields[1], file, line)


def no_row(fields: Sequence[str], seen: Mapping[str, int]) -> str:
    if len(fields) != 2:
        return f"{len(fields)} columns instead of 2"
    if not all(fields):
        return "the label is empty" if fields[0] else "the file name is empty"
    if not fields[1].isprintable():
        return "the label contains unprintable characters"
    if fields[0] in seen:
        return f"duplicate of line {seen[fields[0]]}: {printable(fields[0])}"
    return ""
