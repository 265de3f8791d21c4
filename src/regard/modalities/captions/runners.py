"""A model that writes about images, asked: for a sentence, or for an example to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.decode.settings import Decoding
from regard.look.examples import Example
from regard.look.maps import Map
from regard.modalities.inputs import ModelView, Picture, as_list, check_count, input_text, is_single, path_of
from regard.modalities.text.alignment import name_written_rows
from regard.modalities.text.writing import GeneratedText

from .captioning import Describing
from .examples import captioned_image


@dataclass(frozen=True, eq=False)
class ImageDescription:
    """An image and its caption."""

    image: str  # the file's path; empty for an image in memory
    text: str
    nbest: list[GeneratedText]  # the nbest captions, best first
    maps: dict[str, Map]  # attention maps of the requested layers: (1, heads, words, patches)


def describer(model: ModelView) -> Describing:
    return Describing(model.net, model.processor, model.symbols)


def describe(
    model: ModelView, given: Picture | Sequence[Picture], decoding: Decoding, look: str | None
) -> ImageDescription | list[ImageDescription]:
    describing, several = describer(model), as_list(given)
    done = [
        ImageDescription(
            path_of(picture),
            own[0].text if own else "",
            own,
            {} if look is None or not own else looked_at(model, describing, picture, own[0], look),
        )
        for picture, own in zip(several, describing.describe(several, decoding), strict=True)
    ]
    return done[0] if is_single(given) else done


def looked_at(
    model: ModelView, describing: Describing, picture: Picture, found: GeneratedText, pattern: str
) -> dict[str, Map]:
    """The rows are the words that were written, and the end."""
    wrote = [*found.ids, model.symbols.end[0]]
    before = torch.tensor([[describing.begin, *wrote[:-1]]])
    with torch.inference_mode():
        looked = model(describing.seeing.take(picture), before, look=pattern)
    return name_written_rows(model, describing.text, looked.maps, wrote)


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1, 2)
    return captioned_image(describer(model), given[0], input_text(given[1]) if len(given) > 1 else None)
