"""Images drawn by a generator, one by one: so that an image is the same to the bit, however many are drawn with it.

Shapes: z size of the noise, c channels, h height, w width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from regard.look.examples import image_record

from .processor import Drawn
from .seeds import noise_of
from .settings import Drawing


@dataclass(frozen=True, eq=False)
class DrawnImage:
    """An image and where it came from: the same seed and number give it again."""

    pixels: Tensor  # (c, h, w), uint8
    seed: int
    number: int

    @property
    def image(self) -> Image.Image:
        pixels = self.pixels.permute(1, 2, 0).numpy()
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)

    def data(self) -> dict[str, Any]:
        """For JSON, with the image as a data address."""
        record = image_record(self.pixels)
        return {"kind": "drawing", "seed": self.seed, "number": self.number} | {
            name: record[name] for name in ("width", "height", "png")
        }


@dataclass(frozen=True, eq=False)
class NoiseDrawer:
    net: nn.Module
    drawn: Drawn

    def noise(self, seed: int, number: int, truncation: float | None = None) -> Tensor:
        """As the net takes it, in the precision of its weights.  -> (1, z)"""
        config: Any = self.net.config
        like = next(self.net.parameters())
        return noise_of(seed, number, config.noise, truncation).to(like)[None]

    @torch.inference_mode()
    def draw(self, how: Drawing) -> Iterator[DrawnImage]:
        for number in range(how.n):
            image = self.net(self.noise(how.seed, number, how.truncation))[0]
            yield DrawnImage(self.drawn.pixels(image), how.seed, number)
