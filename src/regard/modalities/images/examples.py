"""An image as an example to look at.

Shapes: b batch, c classes.
"""

from collections.abc import Sequence

from torch import Tensor

from regard.look.answers import Labels, label_choices
from regard.look.examples import Example, answer_log_probability, image_record, numbered_labels
from regard.modalities.inputs import Picture

from .classifier import ImageClassifier, read_pixels


def labelled_image(seeing: ImageClassifier, picture: Picture) -> Example:
    image = read_pixels(seeing.images, picture)

    def tell(logits: Tensor) -> Labels:
        return label_choices(logits[0], seeing.labels)

    def names(classes: Sequence[int]) -> tuple[str, ...]:
        return tuple(seeing.labels[i] for i in classes) if seeing.labels else numbered_labels(classes)

    inputs = (seeing.images.enter(seeing.net, image)[None],)
    return Example(
        inputs, tell, ("image",), lambda: image_record(image), image=image, names=names, sure=answer_log_probability
    )
