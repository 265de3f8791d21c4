"""A model that sees images, asked: for a label, or for an example to look at."""

from collections.abc import Sequence

from regard.errors import InputError
from regard.look.examples import Example
from regard.modalities.inputs import ModelView, Picture, as_list, check_count, is_single
from regard.modalities.verbs import verb_function

from .classifier import ImageClassification, ImageClassifier
from .examples import labelled_image
from .processor import Images
from .unlabelled import unlabelled_image


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
    if "text" in model.takes:  # then texts are its labels
        found: ImageClassifier = verb_function("regard.modalities.captions.zero_shot:labelled_by_texts")(model)
        return found
    return ImageClassifier(model.net, image_processor(model), model.labels)


def classify(model: ModelView, given: Picture | Sequence[Picture]) -> ImageClassification | list[ImageClassification]:
    several = as_list(given)
    found = recogniser_of(model).classify(several)
    return found[0] if is_single(given) else found


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    if "text" in model.takes:
        beside: Example = verb_function("regard.modalities.captions.zero_shot:example")(model, given)
        return beside
    check_count(model, given, 1)
    if model.get("classes") is None:
        return unlabelled_image(image_processor(model), model.net, given[0])
    return labelled_image(recogniser_of(model), given[0])
