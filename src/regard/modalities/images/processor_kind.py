"""How images are prepared for a model, in its folder: of ours, and of another library."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, ConfigError
from regard.interop import image_preparation
from regard.modalities.processor import (
    ExampleProcessor,
    ForeignFolder,
    MissingProcessor,
    ProcessorFolder,
    ProcessorKind,
)
from regard.models.family import Family
from regard.storage.documents import json_bytes, read_json

from .processor import Images

SIDE = 96  # of images for a net that takes any size
SMALL = 16  # of those in its example


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Images:
    where = home.folder / "regard.json"
    return sized(with_channels(Images.from_data(data, str(where)), home, where), home, where)


def with_channels(images: Images, home: ProcessorFolder, where: Path) -> Images:
    """For a net that takes images of as many channels."""
    channels = home.get("channels")
    if images.channels != channels:
        got = f"{images.channels} channels in the processor, {channels or 'none'} in the model"
        raise CheckpointError("the image processor does not match the model", where=str(where), got=got)
    return images


def sized(images: Images, home: ProcessorFolder, where: Path) -> Images:
    """For a net that takes images of one size. A plain square is made of any size; where more is told, such as what is
    cut off, nobody can say what was meant."""
    size = home.get("image")
    if size is None or images.size is None or (images.size == size and images.fit != "within"):
        return images
    if images.shorter is not None or images.fit == "within":
        raise CheckpointError(
            "the image sizes of the model and its processor differ",
            where=str(where),
            got=f"{images.size} ({images.fit}) in the processor, {size} x {size} in the model",
            fix="set the sizes in this file to the model's, or remove the file",
        )
    return replace(images, size=size)


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> Images | MissingProcessor:
    """As timm's config tells it or the file of transformers beside it, or why neither does so in words that we have."""
    path, size = home.folder / image_preparation.PREPROCESSOR_FILE, home.get("image")
    line = image_preparation.sample(size, home.config.channels, detects="detect" in home.family.tasks)
    fix = f"write a file with this line, with the mean and standard deviation of the training:\n{line}"
    told = image_preparation.from_timm(data, size)
    if told is None and not path.is_file():
        return MissingProcessor(str(path), "file not found", fix)
    if told is None:
        given = read_json(path)
        told = image_preparation.from_transformers(given, home.config.channels)
        if told is None:
            return MissingProcessor(str(path), image_preparation.unsupported_setting(given), fix)
    try:
        found = with_channels(Images.from_data(told, str(path)), home, path)
    except (CheckpointError, ConfigError) as error:
        return MissingProcessor(str(path), f"{error.what}: {error.got.strip()}", fix)
    return sized(found, home, path)


def export(images: Images, folder: ForeignFolder) -> ForeignFolder:
    config = folder.config
    if "architecture" in config:  # timm's, whose config tells it
        more = image_preparation.to_timm(images.to_data()) or {}
        return replace(folder, config={**config, "pretrained_cfg": config["pretrained_cfg"] | more})
    told = image_preparation.to_transformers(images.to_data())
    return replace(
        folder, files={**folder.files, **({image_preparation.PREPROCESSOR_FILE: json_bytes(told)} if told else {})}
    )


def blank(family: Family, config: Any, words: object) -> Images:
    fixed = family.get(config, "image")
    return Images(size=fixed or SIDE, channels=config.channels, fit="stretch" if fixed else "within")


def example(family: Family, config: Any) -> ExampleProcessor:
    plain = blank(family, config, None)
    return ExampleProcessor(plain if family.has("image") else replace(plain, size=SMALL))


IMAGES = ProcessorKind(frozenset({"image"}), (), read, read_foreign, export, blank, example)
