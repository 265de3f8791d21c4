"""An image with boxes as an example to look at. Boxes are told in the pixels of the image as the net sees it. The
detector is asked about the surest of them, or about what one query says, be that a box that is told or not.

Shapes: b batch, q queries, c classes.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.look.examples import Example, image_record
from regard.modalities.images.classifier import read_pixels
from regard.modalities.inputs import Picture

from .detection import decode_boxes
from .detector import Detector, Thing

SURE = 0.5  # of a box that is told
EVERY = -1.0  # no score is lower


@dataclass(frozen=True)
class Boxes:
    """The things that were found: an answer of its own kind (``look.answers``)."""

    found: tuple[Thing, ...]
    size: tuple[int, int]  # width and height of the image as the net sees it, in whose pixels boxes are told

    def data(self) -> dict[str, Any]:
        boxes = [{"label": x.label, "score": x.score, "box": list(x.box)} for x in self.found]
        return {"kind": "boxes", "width": self.size[0], "height": self.size[1], "boxes": boxes}

    def headline(self) -> str:
        return ", ".join(thing.label for thing in self.found) or "(no objects detected)"

    def subject(self) -> str:
        if not self.found:
            raise InputError("no object was detected, so there is no answer to explain", fix="select a query with row")
        return self.found[0].label


def image_with_boxes(finding: Detector, picture: Picture) -> Example:
    image = read_pixels(finding.images, picture)
    seen = (image.shape[2], image.shape[1])

    def things(output: Any, threshold: float) -> list[Thing]:
        (found,) = decode_boxes(output, torch.tensor([image.shape[1:]]), threshold)
        return [
            finding.thing(int(kind), float(score), box.tolist(), seen)
            for kind, score, box in zip(found.classes, found.scores, found.boxes, strict=True)
        ]

    def tell(output: Any) -> Boxes:
        return Boxes(tuple(sorted(things(output, SURE), key=lambda one: -one.score)), seen)

    def sure(output: Any, first: Any) -> Tensor:
        return thought(output.logits, first.logits, surest(first.logits[0]))

    def alone(query: int) -> Example:
        if not 0 <= query < finding.net.config.queries:
            expected = f"0 to {finding.net.config.queries - 1}"
            raise InputError("query index out of range", got=str(query), expected=expected)
        return replace(
            example,
            tell=lambda output: Boxes((things(output, EVERY)[query],), seen),
            sure=lambda output, first: thought(output.logits, first.logits, query),
        )

    inputs = (finding.images.enter(finding.net, image)[None],)
    example = Example(inputs, tell, ("image",), lambda: image_record(image), image=image, sure=sure, alone=alone)
    return example


def surest(logits: Tensor) -> int:
    """The query that is surest to have found something; the last class is "nothing".  (q, c + 1)"""
    return int(logits.softmax(-1)[:, :-1].amax(-1).argmax())


def thought(logits: Tensor, first: Tensor, query: int) -> Tensor:
    """The log-probability of the thing that a query took for the likeliest at first.

    (b, q, c + 1), (1, q, c + 1) -> (b,)
    """
    return logits[:, query].log_softmax(-1)[:, int(first[0, query, :-1].argmax())]
