"""Images with sentences about them, on the page and in the HTTP API."""

from collections.abc import Sequence
from typing import Any, Literal

from regard.modalities.images.page import IMAGE_FILES, ImageInput, image_example
from regard.modalities.page_input import InputContext, LookInput, PageGiven, PageInput
from regard.modalities.text.page import LimitedText, check_length


class CaptionInput(PageGiven):
    """An image and its caption; without a target the model writes the caption."""

    kind: Literal["caption"]
    image: ImageInput
    target: LimitedText | None = None

    def given(self, border: InputContext) -> LookInput:
        target = () if self.target is None else (check_length(border, self.target),)
        return (self.image.picture(border), *target)

    def with_target(self, target: str) -> PageGiven:
        return self if self.target is not None else self.model_copy(update={"target": target})


def caption_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"kind": "caption", "image": image_example(name, verbs)}


CAPTION = PageInput((ImageInput, CaptionInput), caption_example, files=IMAGE_FILES, words="shakespeare")
