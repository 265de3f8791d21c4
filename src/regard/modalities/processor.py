"""What stands between raw inputs and tensors: one processor for each medium, or a composite of several.

``regard.json`` names a processor's kind, which is its key in the table of ``modalities.processors``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.decode.symbols import NO_SYMBOLS, Symbols
from regard.models.family import Family


class Processor(Protocol):
    @property
    def media(self) -> Mapping[str, Any]:
        """Who prepares each medium: "text", "image"; itself, if it is for one."""
        ...

    def to_data(self) -> dict[str, Any]:
        """Its kind and its settings, as ``regard.json`` has them."""
        ...

    def files(self) -> dict[str, bytes]:
        """What stands beside ``regard.json``."""
        ...


class MissingProcessor(NamedTuple):
    """Why a model of another library has no processor: the file, what is wrong with it, and what to do."""

    where: str
    got: str
    fix: str


@dataclass(frozen=True, eq=False)
class ProcessorFolder:
    """The folder that a processor is read from, and the model that it belongs to."""

    folder: Path
    family: Family
    config: Any

    def get(self, key: str) -> Any:
        """A value of the config, or None where it has no such key."""
        return self.family.get(self.config, key)


@dataclass(frozen=True)
class ForeignFolder:
    """A folder in another library's format: its config, and the files beside it that tell how inputs are prepared; and
    the model that is written to it."""

    config: Mapping[str, Any]
    files: Mapping[str, bytes]
    family: Family
    symbols: Symbols = NO_SYMBOLS
    generation: Mapping[str, Any] = field(default_factory=dict)  # how it generates, of which it may have none


class ExampleProcessor(NamedTuple):
    """What contracts ask a small model with."""

    processor: Any
    symbols: Symbols = NO_SYMBOLS


@dataclass(frozen=True)
class ProcessorKind:
    """``read`` gets the data of ``regard.json``, ``read_foreign`` the config.json of another library and the kind that
    it is of, ``export`` a processor and the folder that is being written in another library's format. ``blank`` makes
    the plainest one, for random weights, from the words of another model. ``example`` makes a small one for the
    family's example, where the plainest is not small, or needs words."""

    media: frozenset[str]
    needs: tuple[str, ...]  # files that must stand in the folder
    read: Callable[[Mapping[str, Any], ProcessorFolder], Any]
    read_foreign: Callable[[Mapping[str, Any], str, ProcessorFolder], Any]
    export: Callable[[Any, ForeignFolder], ForeignFolder]
    blank: Callable[[Family, Any, Any], Any]
    example: Callable[[Family, Any], ExampleProcessor] | None = None

    def small(self, family: Family, config: Any) -> ExampleProcessor:
        if self.example is not None:
            return self.example(family, config)
        return ExampleProcessor(self.blank(family, config, None))
