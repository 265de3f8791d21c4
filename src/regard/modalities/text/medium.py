"""Texts as a medium."""

from regard.modalities.medium import Medium

TEXT = Medium(
    "text",
    "texts",
    example="regard.modalities.text.runners:example",
    sample="regard.modalities.text.medium:sample",
    argument="text",
    student="regard.modalities.text.teaching:same_tokens",
)


def sample() -> str:
    return "the dog sees a cat"
