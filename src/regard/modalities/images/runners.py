"""A model that sees images, asked: for a label, or for an example to look at."""

from collections.abc import Sequence

from regard.errors import InputError
from regard.look.examples import Example
from regard.modalities.inputs import ModelView, Picture, as_list, check_count, is_single

from .classifier import ImageClassification, ImageClassifier
from .examples import labelled_image
from .processor import Images


def image_processor(model: ModelView) -> Images:
    """How images are prepared for it."""
    images = None if model.processor is None else model.processor.media.get("image")
    if not isinstance(images, Images):
        what = "this model has no image processor"
        if model.unprepared is not None:
            raise InputError(what, where=model.unprepared.where, got=model.unprepared.got, fix=model.unprepared.fix)
        raise InputError(
            what, fix="add one: dataclasses.replace(model, processor=regard.modalities.images.Images(...))"
        )
    return images


def recogniser_of(model: ModelView) -> ImageClassifier:
    return ImageClassifier(model.net, image_processor(model), model.labels)


def classify(model: ModelView, given: Picture | Sequence[Picture]) -> ImageClassification | list[ImageClassification]:
    several = as_list(given)
    found = recogniser_of(model).classify(several)
    return found[0] if is_single(given) else found


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1)
    return labelled_image(recogniser_of(model), given[0])
