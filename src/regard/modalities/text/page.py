"""Texts on the page and in the HTTP API: a text, and a text with what it became."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, StringConstraints

from regard.errors import InputError
from regard.look.changes import Head
from regard.look.maps import matching_taps
from regard.modalities.page_input import InputContext, LookInput, PageGiven, PageInput

from .runners import text_processor
from .translator import check_text

LETTERS = 4096
TOKENS = 2048
REWEIGHTED = 512  # tokens, where weights are changed: those maps are kept whole
INFLUENCED = 160  # tokens, where a net mixes without weights: each position's influence takes a pass of its own

LimitedText = Annotated[str, StringConstraints(max_length=LETTERS)]

OPENINGS = {  # what a model that ships is shown first
    "tatoeba-en-de": "She has never seen such a big dog in her life.",
    "tatoeba-de-en": "Wo sind meine Schlüssel?",
    "recall": "Anna sings . Boris paints . Clara dances . Boris",
    "shakespeare": "JULIET: O Romeo, Romeo! wherefore art thou",
}
LECTURES = (  # what the decks speak of; for those that read English
    "The server is crashed.",
    "This is the first book I did.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "walking along the river bank",
)
ENGLISH = ("tatoeba-en-de", "shakespeare")
ANY_TEXT = "The animal didn't cross the street because it was too tired."
QUESTION = "Who was too tired?"


# Inputs ------------------------------------------------------------------------------------------


class TextInput(PageGiven):
    """A text; with a second one for a model that reads pairs, or that answers questions about it."""

    kind: Literal["text"]
    text: LimitedText
    second: LimitedText | None = None
    streamed: ClassVar[bool] = True

    def given(self, border: InputContext) -> LookInput:
        return given_texts(border, self.text, self.second)

    def with_target(self, target: str) -> PageGiven:
        return PairInput(kind="pair", source=self.text, target=self.second or target)


class PairInput(PageGiven):
    """A source text and its translation; without a target the model writes the translation."""

    kind: Literal["pair"]
    source: LimitedText
    target: LimitedText | None = None
    streamed: ClassVar[bool] = True

    def given(self, border: InputContext) -> LookInput:
        return given_texts(border, self.source, self.target)

    def with_target(self, target: str) -> PageGiven:
        return self if self.target is not None else self.model_copy(update={"target": target})


def given_texts(border: InputContext, first: str, second: str | None) -> LookInput:
    return tuple(check_length(border, text) for text in (first, second) if text is not None)


def check_length(border: InputContext, text: str) -> str:
    """A text with no more tokens than can be looked at in time."""
    changed = any(not isinstance(change, Head) for change in border.changes)
    check_tokens(border, text, REWEIGHTED if changed else TOKENS)
    if border.looked and "influence" in matching_taps(border.model.net, "*").values():
        check_tokens(border, text, INFLUENCED)
    return text


def check_tokens(border: InputContext, text: str, most: int) -> None:
    count = len(text_processor(border.model).literal().ids([check_text(text)])[0])
    if count > most:
        raise InputError("the text has too many tokens", got=str(count), expected=f"at most {most} tokens")


def opening(name: str) -> str:
    return OPENINGS.get(name, ANY_TEXT)


def text_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    if "answer" in verbs:
        return {"kind": "text", "text": QUESTION, "second": ANY_TEXT}
    return {"kind": "text", "text": opening(name)}


def pair_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "pair", "source": opening(name)}


def sentences(name: str) -> tuple[str, ...]:
    return LECTURES if name in ENGLISH else ()


TEXT = PageInput((TextInput,), text_example, sentences, words="shakespeare")
PAIR = PageInput((TextInput, PairInput), pair_example, sentences, words="tatoeba-en-de")


# Answers -----------------------------------------------------------------------------------------


class WrittenToken(BaseModel):
    text: str
    logp: float


class WrittenAnswer(BaseModel):
    """The output of a translation model, a captioner or a language model."""

    kind: Literal["text"]
    text: str
    tokens: list[WrittenToken]
    remark: str = ""  # such as: much of the text is in a script that the model has not learned


class NextAnswer(BaseModel):
    kind: Literal["next"]
    tokens: list[tuple[str, float]]
    remark: str = ""


class TaggedWord(BaseModel):
    word: str
    tag: str  # empty for a word without tokens
    probability: float


class TagsAnswer(BaseModel):
    kind: Literal["tags"]
    words: list[TaggedWord]


class SpanAnswer(BaseModel):
    """The part of the second text that answers the first: ``text`` from ``start`` to ``end``, in characters."""

    kind: Literal["span"]
    text: str
    start: int
    end: int
    probability: float


class EmbeddingAnswer(BaseModel):
    """A vector of length 1 and, with a second text, the cosine similarity of the two."""

    kind: Literal["embedding"]
    vector: list[float]
    similarity: float | None


class FilledPlace(BaseModel):
    token: int
    tokens: list[tuple[str, float]]


class FilledAnswer(BaseModel):
    kind: Literal["filled"]
    places: list[FilledPlace]
