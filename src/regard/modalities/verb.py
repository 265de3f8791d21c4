"""A verb: what a model can be asked to do. Model, the command line, the HTTP API and the page read its row.

Rows are light, so that help loads nothing: who does the work stands there as "package.module:function".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    example: str = ""  # how one input is looked at: a function of a model and its inputs; empty: as any of its medium
    instead: Mapping[str, str] = field(default_factory=dict)  # what to do with a model that can only do another verb
    # How the HTTP API answers; empty: what is given is looked at.
    reply: str = ""  # several inputs at once: a function of a model, what each was given, and a Decoding or None
    stream: str = ""  # what is written, piece by piece: a function of a model, a text and a Decoding
    written: str = ""  # the answer when all of it is written: a function of a model, a text and what it became
