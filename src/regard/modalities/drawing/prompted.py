"""What a model that draws from texts takes and gives: a tokenizer, and how what it gives becomes pixels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import CheckpointError, ConfigError, InputError
from regard.modalities.captions.processor import Captions
from regard.modalities.images.processor import Images
from regard.modalities.processor import ExampleProcessor, ForeignFolder, ProcessorFolder, ProcessorKind
from regard.modalities.text import processor_kind as texts
from regard.modalities.text.processor import Text
from regard.models.family import Family

from . import processor_kind as drawn
from .processor import Drawn

KIND = "prompted"


@dataclass(frozen=True, eq=False)
class Prompted:
    drawn: Drawn
    text: Text

    @property
    def images(self) -> Images:
        return self.drawn.images

    @property
    def media(self) -> dict[str, Any]:
        return {"text": self.text, "noise": self.drawn}

    def files(self) -> dict[str, bytes]:
        return self.text.files()

    def to_data(self) -> dict[str, Any]:
        """Without the text, whose file stands beside it."""
        return {"kind": KIND, "images": self.images.to_data()}


def of_captions(captions: Captions) -> Prompted:
    """That of a run: the images of captions are what is drawn."""
    return Prompted(Drawn(captions.images), captions.text)


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Prompted:
    where = str(home.folder / "regard.json")
    if set(data) != {"kind", "images"} or not isinstance(data["images"], dict):
        raise ConfigError("invalid processor of prompts", where=where, got=f"keys {', '.join(data)}"[:200])
    words = texts.read_tokenizer(home)
    if words is None:
        raise CheckpointError("the processor is missing a file", where=str(home.folder), expected=texts.FILE)
    return Prompted(Drawn(Images.from_data(data["images"], where)), words)


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> None:
    """That of a pipeline is read with its parts."""


def export(prompted: Prompted, folder: ForeignFolder) -> ForeignFolder:
    raise InputError("a model that draws is exported as a whole pipeline, which has no single processor")


def blank(family: Family, config: Any, words: Any) -> Prompted:
    return Prompted(drawn.blank(family, config, None), words)


def example(family: Family, config: Any) -> ExampleProcessor:
    words = texts.example(family, config)
    return ExampleProcessor(Prompted(drawn.blank(family, config, None), words.processor), words.symbols)


PROMPTED = ProcessorKind(frozenset({"text", "noise"}), (texts.FILE,), read, read_foreign, export, blank, example)
