"""An image and its caption as an example to look at."""

from regard.look.examples import Example, image_record
from regard.modalities.images.classifier import read_pixels
from regard.modalities.inputs import Picture
from regard.modalities.text.examples import USUAL, written_example
from regard.modalities.text.translator import check_text

from .captioning import Describing


def captioned_image(describing: Describing, picture: Picture, target: str | None) -> Example:
    """Without a caption, the model writes it."""
    image = read_pixels(describing.seeing.images, picture)
    images = describing.seeing.images.enter(describing.seeing.net, image)[None]
    if target is None:
        best = describing.told(images, USUAL)[0][0]
        target, ids = best.text, list(best.ids)
    else:
        ids = describing.literal.ids([check_text(target)])[0]
    return written_example(
        describing.text,
        describing.begin,
        [*ids, describing.symbols.end[0]],
        inputs=(images,),
        media=("image", "text"),
        record={"kind": "caption", "image": image_record(image), "target": target},
        texts=(target,),
        words={},
        image=image,
    )
