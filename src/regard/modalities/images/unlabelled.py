"""An image as an example to look at, for a net that answers with no class."""

from typing import Any

from regard.look.examples import Example, image_record
from regard.modalities.inputs import Picture

from .classifier import read_pixels
from .processor import Images


def unlabelled_image(images: Images, net: Any, picture: Picture) -> Example:
    """What the net makes of it is not told in words."""
    image = read_pixels(images, picture)
    inputs = (images.enter(net, image)[None],)
    return Example(inputs, lambda output: None, ("image",), lambda: image_record(image), image=image)
