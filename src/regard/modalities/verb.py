"""A verb: what a model can be asked to do. Model, the command line, the HTTP API and the page read its row.

Rows are light, so that help loads nothing: who does the work stands there as "package.module:function".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AnswerView:
    """How answers are shown: each as JSON, one call's in a terminal, and drawn to a file, if they can be."""

    data: Callable[[Any], dict[str, Any]]
    lines: Callable[[Sequence[Any]], list[str]]
    draw: Callable[[Sequence[Any], Path], None] | None = None
    fields: Callable[[Any], dict[str, Any]] | None = (
        None  # what stands in a table beside the input; None: all of its data
    )

    def columns(self, answer: Any) -> dict[str, Any]:
        return (self.fields or self.data)(answer)


@dataclass(frozen=True)
class Verb:
    """``runners`` say for each medium that it is given who does the work: a function of a model and what is given."""

    name: str
    summary: str  # one sentence, for help
    runners: Mapping[str, str]
    answers: Mapping[str, str]  # the type of what comes out for each input, by medium
    command: str  # of the command line: a function whose arguments are its own, and which shows the answer
    cannot: str  # what a model lacks that is refused: "cannot translate text"
    use: str  # and what can
    views: Mapping[str, str] = field(default_factory=dict)  # how answers are shown: an AnswerView, by medium
    examples: Mapping[str, str] = field(default_factory=dict)  # how one is looked at, as Medium.example
    roles: tuple[str, ...] = ()  # what each input is, as columns of tables are called; empty: the medium that is taken
    before: tuple[str, ...] = ()  # samples of the arguments before its input, with which contracts ask
    causal: bool = False  # whether the answer goes on with the input, so that a net reads nothing that comes later
    measured: str = ""  # on files that hold the right answers: a function of a model, files, columns, a Decoding
    instead: Mapping[str, str] = field(default_factory=dict)  # what to do with a model that can only do another verb
    # How the HTTP API answers; empty: what is given is looked at.
    reply: str = ""  # several inputs at once: a function of a model, what each was given, and a Decoding or None
    stream: str = ""  # what is written, piece by piece: a function of a model, a text and a Decoding
    written: str = ""  # the answer when all of it is written: a function of a model, a text and what it became
