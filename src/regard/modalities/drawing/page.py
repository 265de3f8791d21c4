"""Noise on the page and in the HTTP API: a seed; and the image that is drawn of it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from regard.modalities.page_input import InputContext, LookInput, PageGiven, PageInput
from regard.modalities.text.page import LimitedText, check_length

Seed = Annotated[int, Field(ge=0, lt=2**53)]  # as many as a page can tell apart


class NoiseInput(PageGiven):
    """The image of this seed is drawn."""

    kind: Literal["noise"]
    seed: Seed

    def given(self, border: InputContext) -> LookInput:
        found: Any = self.seed
        return (found,)


def noise_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "noise", "seed": 1}


NOISE = PageInput((NoiseInput,), noise_example)


class PromptInput(PageGiven):
    """The image that is drawn of a text, by this seed."""

    kind: Literal["prompt"]
    text: LimitedText
    seed: Seed = 1

    def given(self, border: InputContext) -> LookInput:
        found: Any = (check_length(border, self.text), self.seed)
        return found


def prompt_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "prompt", "text": "a large red circle above a small blue square", "seed": 1}


PROMPT = PageInput((PromptInput,), prompt_example, words="shakespeare")


class DrawingDocument(BaseModel):
    """An image as a data address, and the seed and number that give it again."""

    kind: Literal["drawing"]
    seed: int
    number: int
    width: int
    height: int
    png: str
