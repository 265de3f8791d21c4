"""What a net's output says, in words that can be shown: a text, labels, the next token, the tokens behind masks.

Each answer tells itself three times: ``data`` for JSON, ``headline`` for a title, ``subject`` for what an analysis asks
about. A modality may have answers of its own kind, such as boxes.

Shapes: c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

MOST_CHOICES = 10  # choices that are told

Choices = tuple[tuple[str, float], ...]  # each with its probability, the likeliest first


def remarked(remark: str) -> dict[str, str]:
    return {"remark": remark} if remark else {}


class Answer(Protocol):
    def data(self) -> dict[str, Any]:
        """For JSON; "kind" says which answer it is."""

    def headline(self) -> str:
        """The answer in a few words, or an empty string."""

    def subject(self) -> str:
        """What the model's score refers to: a label, a token, a text."""


@dataclass(frozen=True)
class WrittenText:
    """A generated text and the log-probability of each of its tokens."""

    text: str
    tokens: Choices
    remark: str = ""  # what a reader should know of it

    def data(self) -> dict[str, Any]:
        tokens = [{"text": token, "logp": logp} for token, logp in self.tokens]
        return {"kind": "text", "text": self.text, "tokens": tokens} | remarked(self.remark)

    def headline(self) -> str:
        return self.text or "(empty)"

    def subject(self) -> str:
        return self.text


@dataclass(frozen=True)
class Labels:
    choices: Choices

    def data(self) -> dict[str, Any]:
        return {"kind": "labels", "labels": listed(self.choices)}

    def headline(self) -> str:
        return likeliest(self.choices)

    def subject(self) -> str:
        return self.choices[0][0]


@dataclass(frozen=True)
class NextToken:
    """The most likely next tokens of a text."""

    choices: Choices
    remark: str = ""  # what a reader should know of them

    def data(self) -> dict[str, Any]:
        return {"kind": "next", "tokens": listed(self.choices)} | remarked(self.remark)

    def headline(self) -> str:
        return likeliest(self.choices)

    def subject(self) -> str:
        return self.choices[0][0]


@dataclass(frozen=True)
class FilledMasks:
    """The most likely tokens at each masked position."""

    places: tuple[tuple[int, Choices], ...]

    def data(self) -> dict[str, Any]:
        rows = [{"token": place, "tokens": listed(choices)} for place, choices in self.places]
        return {"kind": "filled", "places": rows}

    def headline(self) -> str:
        return ", ".join(choices[0][0].strip() for _, choices in self.places)

    def subject(self) -> str:
        return self.places[0][1][0][0] if self.places else ""


def answer_data(answer: Answer | None) -> dict[str, Any]:
    return {"kind": "none"} if answer is None else answer.data()


def listed(choices: Choices) -> list[list[str | float]]:
    return [list(one) for one in choices]


def likeliest(choices: Choices) -> str:
    return f"{choices[0][0].strip()}, {100 * choices[0][1]:.0f} %" if choices else ""


def rank_classes(logits: Tensor) -> list[tuple[int, float]]:
    """Classes and their probabilities, the most likely first.  (c,)"""
    chances = logits.softmax(-1)
    return [(i, float(chances[i])) for i in chances.argsort(descending=True, stable=True).tolist()]


def label_choices(logits: Tensor, names: Sequence[str]) -> Labels:
    """(c,)"""
    return Labels(tuple((names[i] if names else str(i), chance) for i, chance in rank_classes(logits)[:MOST_CHOICES]))
