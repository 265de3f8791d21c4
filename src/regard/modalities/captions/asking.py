"""A model that writes about images, asked: for a sentence, or for an example to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image

from regard.decode.settings import Decoding
from regard.look.example import Example
from regard.look.maps import Map
from regard.modalities.inputs import Asked, Picture, as_text, counted, is_one, several_of
from regard.modalities.text.alignment import by_words
from regard.modalities.text.writing import Said

from .captioning import Describing
from .examples import captioned_image


@dataclass(frozen=True, eq=False)
class ImageDescription:
    """An image and what is said of it."""

    image: str  # the file's path; empty for an image in memory
    text: str
    nbest: list[Said]  # as many as were asked for, the best first
    maps: dict[str, Map]  # where it looked, of the layers that were asked for: (1, heads, words, patches)


def describer(model: Asked) -> Describing:
    return Describing(model.net, model.processor, model.symbols)


def describe(
    model: Asked, given: Picture | Sequence[Picture], decoding: Decoding, look: str | None
) -> ImageDescription | list[ImageDescription]:
    describing, several = describer(model), several_of(given)
    done = [
        ImageDescription(
            "" if isinstance(picture, Image.Image) else str(picture),
            own[0].text if own else "",
            own,
            {} if look is None or not own else looked_at(model, describing, picture, own[0], look),
        )
        for picture, own in zip(several, describing.describe(several, decoding), strict=True)
    ]
    return done[0] if is_one(given) else done


def looked_at(model: Asked, describing: Describing, picture: Picture, found: Said, pattern: str) -> dict[str, Map]:
    """The rows are the words that were written, and the end."""
    wrote = [*found.ids, model.symbols.end[0]]
    before = torch.tensor([[describing.begin, *wrote[:-1]]])
    with torch.inference_mode():
        looked = model(describing.seeing.take(picture), before, look=pattern)
    return by_words(model, describing.text, looked.maps, wrote)


def example(model: Asked, given: Sequence[Picture]) -> Example:
    counted(model, given, 1, 2)
    return captioned_image(describer(model), given[0], as_text(given[1]) if len(given) > 1 else None)
