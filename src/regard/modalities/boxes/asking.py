"""A model that finds objects, asked: for boxes, or for an example to look at."""

from collections.abc import Sequence

from regard.look.example import Example
from regard.modalities.images.asking import images_of
from regard.modalities.inputs import Asked, Picture, counted, is_one, several_of

from .detector import Finding, Spotted
from .examples import image_with_boxes


def detector_of(model: Asked) -> Finding:
    return Finding(model.net, images_of(model), model.labels)


def detect(model: Asked, given: Picture | Sequence[Picture], threshold: float) -> Spotted | list[Spotted]:
    finding, several = detector_of(model), several_of(given)
    found = finding.detect(several, threshold)
    return found[0] if is_one(given) else found


def example(model: Asked, given: Sequence[Picture]) -> Example:
    counted(model, given, 1)
    return image_with_boxes(detector_of(model), given[0])
