"""One input of a net, prepared, and how what the net says to it is read.

Each modality makes its own: see ``modalities/*/examples.py``. What writes a text writes first, and is then looked at in
one pass over all that it wrote.

Shapes: b batch, c classes or channels.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from torch import Tensor

from .answers import Answer
from .short_repr import BriefRepr


@dataclass(frozen=True)
class TimeAxis:
    """The moments of a look, where a net runs several times over one input."""

    unit: str  # what one of them is: "step", "frame", "recycling"
    count: int


def numbered_labels(classes: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(str, classes))


@dataclass(frozen=True, eq=False, repr=False)
class Example(BriefRepr):
    inputs: tuple[Tensor, ...]  # of the net
    tell: Callable[[Any], Answer | None]  # what its output says
    media: tuple[str, ...]  # what was given: ("text",), ("text", "text"), ("image",), ("image", "text")
    record: Callable[[], dict[str, Any]]  # the input as JSON, as the page and the HTTP API have it
    texts: tuple[str, ...] = ()
    image: Tensor | None = None  # (c, h, w), uint8, as the net sees it
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)  # for each axis of words, those that stand on it
    names: Callable[[Sequence[int]], tuple[str, ...]] = numbered_labels  # of what it can answer: words, or classes
    sure: Callable[[Any, Any], Tensor] | None = None  # log-probabilities, (b,): of an output, for what another one said
    alone: Callable[[int], "Example"] | None = None  # of a detector: the same, where one query speaks alone
    time: TimeAxis | None = None  # None: there is one moment
    named: Mapping[str, Tensor] = field(default_factory=dict)  # inputs that the net takes by name, such as segments
    runs: Callable[[Any], Any] | None = None  # how the net is run for it, where it is called several times
    sheet: Callable[[Any], Any] | None = None  # the figure of a trace of it, where that is not a map for each head

    def run(self, net: Any) -> Any:
        """The net's output for it."""
        return net(*self.inputs, **self.named) if self.runs is None else self.runs(net)


def input_kind(media: tuple[str, ...]) -> str:
    """The word for what is given: "text", "pair" (of texts), "image", "image+text"."""
    return "pair" if media == ("text", "text") else "+".join(media)


def answer_log_probability(logits: Tensor, first: Tensor) -> Tensor:
    """The log-probability of what was the likeliest at first.  (b, c), (1, c) -> (b,)"""
    return logits.log_softmax(-1)[:, int(first[0].argmax())]


def image_record(image: Tensor) -> dict[str, Any]:
    """(c, h, w), uint8"""
    pixels = image.permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "png")
    png = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"kind": "image", "width": image.shape[2], "height": image.shape[1], "png": png}
