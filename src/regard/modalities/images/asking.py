"""A model that sees images, asked: for a label, or for an example to look at."""

from collections.abc import Sequence

from regard.errors import InputError
from regard.look.example import Example
from regard.modalities.inputs import Asked, Picture, counted, is_one, several_of

from .examples import labelled_image
from .processor import Images
from .recogniser import Recognised, Seeing


def images_of(model: Asked) -> Images:
    """How images are prepared for it."""
    images = None if model.processor is None else model.processor.media.get("image")
    if not isinstance(images, Images):
        what = "this model does not say how images are prepared for it"
        if model.unprepared is not None:
            raise InputError(what, where=model.unprepared.where, got=model.unprepared.got, fix=model.unprepared.fix)
        raise InputError(
            what, fix="give it one: dataclasses.replace(model, processor=regard.modalities.images.Images(...))"
        )
    return images


def recogniser_of(model: Asked) -> Seeing:
    return Seeing(model.net, images_of(model), model.labels)


def classify(model: Asked, given: Picture | Sequence[Picture]) -> Recognised | list[Recognised]:
    several = several_of(given)
    found = recogniser_of(model).classify(several)
    return found[0] if is_one(given) else found


def example(model: Asked, given: Sequence[Picture]) -> Example:
    counted(model, given, 1)
    return labelled_image(recogniser_of(model), given[0])
