"""What a page and the HTTP API may give a model: one row for each thing that models take.

A row stands in the folder of its modality, as ``page.py``, and in the table of ``page_inputs.py``. An input is a
pydantic model whose ``kind`` tells it from the others; ``given`` turns it into what ``model.look`` takes, within limits
that are checked before any net sees it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from regard.errors import InputError
from regard.look.changes import Change

from .inputs import ModelView, Picture

UploadId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
LookInput = tuple[Picture, ...]


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def nothing_uploaded(name: str) -> bytes:
    raise InputError("there is no uploaded file with this id", got=name)


@dataclass(frozen=True)
class InputContext:
    """What is known where an input comes in: the model, what is changed in it, whether its maps will be looked at, and
    the bytes of what was uploaded, by their id."""

    model: ModelView
    changes: Sequence[Change] = ()
    looked: bool = False
    uploaded: Callable[[str], bytes] = nothing_uploaded


class PageGiven(StrictModel):
    """An input as it comes over the border."""

    kind: str
    streamed: ClassVar[bool] = False  # whether what is written to it can be sent piece by piece

    def given(self, border: InputContext) -> LookInput:
        """In the order in which ``model.look`` takes it."""
        raise NotImplementedError

    def with_target(self, target: str) -> "PageGiven":
        """The same, with the text that a model wrote to it; an input that no text is written to stays as it is."""
        return self


@dataclass(frozen=True)
class FileKind:
    """A kind of file that may be uploaded, known by its first bytes, whatever its sender calls it."""

    type: str  # "image/png"
    begins: Callable[[bytes], bool]


def no_sentences(name: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class PageInput:
    """One thing that models take. ``example`` and ``lectures`` are asked with the name of a model that ships,
    ``example`` also with the verbs of the model that is given it."""

    accepts: tuple[type[PageGiven], ...]
    example: Callable[[str, Sequence[str]], dict[str, Any]]  # what a page opens with, in the form of an input
    lectures: Callable[[str], tuple[str, ...]] = no_sentences  # sentences of the decks that a model reads
    files: tuple[FileKind, ...] = ()  # that may be uploaded for it
    words: str = ""  # the model that ships whose words one with random weights reads or writes


def kind_of(given: type[PageGiven]) -> str:
    """The word that tells it from the others."""
    found: str = given.model_fields["kind"].annotation.__args__[0]  # type: ignore[union-attr]
    return found
