"""The processor of a captioner in its folder: how images are prepared, and the tokenizer."""

from collections.abc import Mapping
from typing import Any

from regard.errors import CheckpointError, ConfigError
from regard.modalities.images import processor_kind as images
from regard.modalities.images.processor import Images
from regard.modalities.processor import (
    ExampleProcessor,
    ForeignFolder,
    MissingProcessor,
    ProcessorFolder,
    ProcessorKind,
)
from regard.modalities.text import processor_kind as text
from regard.modalities.text.processor import Text
from regard.models.family import Family

from .processor import Captions


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Captions:
    where = str(home.folder / "regard.json")
    if set(data) != {"kind", "images"} or not isinstance(data["images"], dict):
        raise ConfigError("invalid captions processor", where=where, got=f"keys {', '.join(data)}"[:200])
    words = text.read_tokenizer(home)
    if words is None:
        raise CheckpointError("the processor is missing a file", where=str(home.folder), expected=text.FILE)
    return Captions(images.read(data["images"], home), words)


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> Captions | MissingProcessor | None:
    """Both, or why one of them cannot be read."""
    words = text.read_foreign(data, kind, home)
    if not isinstance(words, Text):
        return words
    seen = images.read_foreign(data, kind, home)
    return Captions(seen, words) if isinstance(seen, Images) else seen


def export(captions: Captions, folder: ForeignFolder) -> ForeignFolder:
    return text.export(captions.text, images.export(captions.images, folder))


def blank(family: Family, config: Any, words: Any) -> Captions:
    return Captions(images.blank(family, config, None), words)


def example(family: Family, config: Any) -> ExampleProcessor:
    words = text.example(family, config)
    return ExampleProcessor(Captions(images.example(family, config).processor, words.processor), words.symbols)


CAPTIONS = ProcessorKind(frozenset({"image", "text"}), (text.FILE,), read, read_foreign, export, blank, example)
