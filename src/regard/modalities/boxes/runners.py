"""A model that finds objects, asked: for boxes, or for an example to look at."""

from collections.abc import Sequence

from regard.look.examples import Example
from regard.modalities.images.runners import image_processor
from regard.modalities.inputs import ModelView, Picture, as_list, check_count, is_single

from .detector import Detections, Detector
from .examples import image_with_boxes


def detector_of(model: ModelView) -> Detector:
    return Detector(model.net, image_processor(model), model.labels)


def detect(model: ModelView, given: Picture | Sequence[Picture], threshold: float) -> Detections | list[Detections]:
    finding, several = detector_of(model), as_list(given)
    found = finding.detect(several, threshold)
    return found[0] if is_single(given) else found


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1)
    return image_with_boxes(detector_of(model), given[0])
