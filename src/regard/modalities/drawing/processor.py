"""How what a generator gives becomes pixels: as images were prepared for its training, the other way round.

Shapes: c channels, h height, w width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.modalities.images.processor import Images

KIND = "drawings"


@dataclass(frozen=True)
class Drawn:
    images: Images

    @property
    def media(self) -> dict[str, Any]:
        return {"noise": self}

    @property
    def size(self) -> int | None:
        return self.images.size

    @property
    def channels(self) -> int:
        return self.images.channels

    def pixels(self, image: Tensor) -> Tensor:
        """What is below black or above white is black or white.  (c, h, w) -> the same shape, uint8"""
        mean, deviation = (torch.tensor(x)[:, None, None] for x in (self.images.mean, self.images.std))
        shares = image.detach().float().cpu() * deviation + mean
        return (shares * 255).round().clamp(0, 255).to(torch.uint8)

    def to_data(self) -> dict[str, Any]:
        return {"kind": KIND, "images": self.images.to_data()}

    def files(self) -> dict[str, bytes]:
        return {}
