"""Noise as a medium: what is given is a seed, a number from which the noise of an image is drawn."""

from regard.modalities.medium import Medium

NOISE = Medium(
    "noise",
    "noise",
    example="regard.modalities.drawing.runners:example",
    sample="regard.modalities.drawing.medium:sample",
    argument="text",
    recognize="regard.modalities.drawing.medium:is_seed",
)


def sample() -> int:
    return 3


def is_seed(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
