"""What a run learns: the [task] table."""

from dataclasses import dataclass
from typing import Literal

from regard.nn.config import below, not_above_zero, not_shares, refuse
from regard.tasks.words import LOAD
from regard.train.runfile import setting

TEACHER = "a run's or model's folder to learn from too; it must read the same tokens and know the same labels"
SHARE = "of the loss, for the teacher"
TEMPERATURE = "at which teacher and student are compared"


def not_taught(share: float | None) -> list[str]:
    return [f"share = {share} is not from 0 to 1"] if share is not None and not 0 <= share <= 1 else []


@dataclass(frozen=True)
class Translation:
    """Foretell each word of the target from the source and the words before it."""

    kind: Literal["translate"] = "translate"
    smoothing: float = setting(0.1, "label smoothing")
    given: float = setting(1.0, "share of words given as they should be; the others as the model itself says them")
    decay: float = setting(0.0, "k of scheduled sampling: that share falls as k / (k + exp(step / k)); 0: it stays")
    teacher: str = setting("", TEACHER)
    share: float = setting(0.5, SHARE)
    temperature: float = setting(1.0, TEMPERATURE)
    load: float = setting(LOAD, "weight of the load loss, where a model routes its tokens to experts")

    def __post_init__(self) -> None:
        refuse(
            not_shares(self, "smoothing"),
            below(0, self, "given", "decay", "load"),
            not_above_zero(self, "temperature"),
            [f"given = {self.given} is above 1"] if (self.given or 0) > 1 else [],
            not_taught(self.share),
        )


@dataclass(frozen=True)
class LanguageModel:
    """Foretell each token from those before it."""

    kind: Literal["language"] = "language"
    smoothing: float = setting(0.0, "label smoothing")
    load: float = setting(LOAD, "weight of the load loss, where a model routes its tokens to experts")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"), below(0, self, "load"))


@dataclass(frozen=True)
class Description:
    """Foretell each word of a caption from its image and the words before it."""

    kind: Literal["describe"] = "describe"
    smoothing: float = setting(0.0, "label smoothing")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "smoothing"))


@dataclass(frozen=True)
class Classification:
    """One label for each example."""

    kind: Literal["classify"] = "classify"
    smoothing: float = setting(0.0, "label smoothing")
    teacher: str = setting("", TEACHER)
    share: float = setting(0.5, SHARE)
    lesson: Literal["usual", "soft", "hard"] = setting(
        "usual",
        "soft: all that the teacher thinks; hard: its best guess; usual: soft, but hard for the token of a deit",
    )
    temperature: float = setting(2.0, TEMPERATURE + ", by a soft lesson")
    adversarial: float = setting(
        0.0,
        "HAT: share of the steps, the first ones, in which images are made harder; each then costs three times as much",
    )

    def __post_init__(self) -> None:
        wrong = not_taught(self.share) + below(0, self, "adversarial")
        if self.adversarial is not None and self.adversarial > 1:
            wrong += [f"adversarial = {self.adversarial} is above 1"]
        if self.adversarial and self.teacher:
            wrong += ["adversarial and teacher: a run has one or the other"]
        refuse(not_shares(self, "smoothing"), not_above_zero(self, "temperature"), wrong)


@dataclass(frozen=True)
class Tagging:
    """A tag for each word."""

    kind: Literal["tag"] = "tag"


@dataclass(frozen=True)
class Answering:
    """Where in a text the answer to a question stands."""

    kind: Literal["answer"] = "answer"


@dataclass(frozen=True)
class MaskedModel:
    """Guess hidden tokens from all that surrounds them."""

    kind: Literal["masked"] = "masked"
    chosen: float = setting(0.15, "share of tokens to be guessed: 80 % are hidden, 10 % become any other, 10 % stay")
    follows: bool = setting(False, "tell, too, whether a second line follows the first, or is any other")
    teacher: str = setting("", TEACHER)
    share: float = setting(0.5, SHARE)
    temperature: float = setting(2.0, TEMPERATURE)

    def __post_init__(self) -> None:
        refuse(not_shares(self, "chosen"), not_above_zero(self, "chosen", "temperature"), not_taught(self.share))


@dataclass(frozen=True)
class MissingSpans:
    """Write the spans of tokens that are missing in a text."""

    kind: Literal["spans"] = "spans"
    missing: float = setting(0.15, "share of the tokens that are taken away")
    mean: float = setting(3.0, "tokens of a span, on average")
    smoothing: float = setting(0.0, "label smoothing")
    load: float = setting(LOAD, "weight of the load loss, where a model routes its tokens to experts")

    def __post_init__(self) -> None:
        wrong = below(1, self, "mean") + below(0, self, "load")
        refuse(wrong, not_shares(self, "missing", "smoothing"), not_above_zero(self, "missing"))


@dataclass(frozen=True)
class Similarity:
    """Two texts that mean the same shall have embeddings that point the same way."""

    kind: Literal["similar"] = "similar"
    temperature: float = setting(0.05, "that cosines are divided by")

    def __post_init__(self) -> None:
        refuse(not_above_zero(self, "temperature"))


@dataclass(frozen=True)
class Detection:
    """A set of boxes with their classes."""

    kind: Literal["detect"] = "detect"
    label: float = setting(1.0, "weight of the class, in the loss and in the matching")
    box: float = setting(5.0, "weight of the distance of two boxes")
    overlap: float = setting(2.0, "weight of what they have in common")
    nothing: float = setting(0.1, "of the class, for queries that shall find nothing")
    earlier: float = setting(1.0, "weight of what the decoder's earlier layers say; 0: only the last is heard")

    def __post_init__(self) -> None:
        refuse(below(0, self, "label", "box", "overlap", "earlier"), not_above_zero(self, "nothing"))


Goal = (
    Translation
    | LanguageModel
    | Description
    | Classification
    | Tagging
    | Answering
    | MaskedModel
    | MissingSpans
    | Similarity
    | Detection
)
