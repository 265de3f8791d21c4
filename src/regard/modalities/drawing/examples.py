"""An image that is drawn, to be looked at while it is: a seed, its noise, and the maps of the net.

Shapes: c channels, h height, w width.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.look.examples import Example

from .drawer import DrawnImage, NoiseDrawer


@dataclass(frozen=True, eq=False)
class DrawingAnswer:
    """The image: an answer of its own kind (``look.answers``)."""

    drawn: DrawnImage

    def data(self) -> dict[str, Any]:
        return self.drawn.data()

    def headline(self) -> str:
        height, width = self.drawn.pixels.shape[1:]
        return f"an image of {width} x {height} pixels"

    def subject(self) -> str:
        return f"the image of seed {self.drawn.seed}"


def drawn_from_seed(drawer: NoiseDrawer, seed: int) -> Example:
    """Its first image."""

    def tell(output: Tensor) -> DrawingAnswer:
        return DrawingAnswer(DrawnImage(drawer.drawn.pixels(output[0]), seed, 0))

    return Example((drawer.noise(seed, 0),), tell, ("noise",), lambda: {"kind": "noise", "seed": seed})
