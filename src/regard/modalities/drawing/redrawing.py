"""A part of a drawn image, drawn anew: the image is told by its text and its seed, which give it again.

Shapes: H, W of the image.
"""

from dataclasses import dataclass
from typing import Any

from regard.look.examples import image_record
from regard.modalities.inputs import Picture

from .masks import mask_of
from .prompt_drawer import PromptDrawer
from .settings import Drawing


@dataclass(frozen=True, eq=False)
class Redrawing:
    """Of the image of this text and seed, what is white in the mask; all else stays."""

    mask: Picture
    text: str
    seed: int

    def drawing(self, drawer: PromptDrawer, seed: int) -> Drawing:
        """How it is drawn by a seed; for it the image is drawn that is to be kept."""
        (kept,) = drawer.draw(self.text, Drawing(seed=self.seed))
        return Drawing(seed=seed, init=kept.image, mask=self.mask)

    def record(self, drawer: PromptDrawer) -> dict[str, Any]:
        """As the page and the HTTP API have it, the mask at the size of the image."""
        side = drawer.net.config.image
        white = mask_of(self.mask, side, side)[0].byte() * 255
        return {"mask": image_record(white)["png"], "of": {"text": self.text, "seed": self.seed}}
