"""Drawing only a part of an image anew.

Of any denoiser: Lugmayr et al. (2022), https://arxiv.org/abs/2201.09865, equation 8: after each step, what is known is
put back, as noisy as the rest is. Differs from the paper: with the same noise in each step, so that a solver which
looks back sees one path; and without its resampling.

Of a denoiser trained for it: Rombach et al. (2022), https://arxiv.org/abs/2112.10752, section 4.5: it reads the mask
and the known part beside the noisy image.

Shapes: b images, c channels, h x w pixels; ``redraw`` (b, 1, h, w) or (1, 1, h, w) bool, True where the image is drawn
anew.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .prediction import Estimate, moved
from .solvers.move import Move


@dataclass(frozen=True)
class KnownPart:
    """What must stay."""

    sample: Tensor  # (b, c, h, w)
    redraw: Tensor  # (b, 1, h, w) bool
    noise: Tensor  # (b, c, h, w), that the run began with

    def __post_init__(self) -> None:
        if self.redraw.dtype != torch.bool:
            raise ValueError(f"redraw is {self.redraw.dtype}, not bool: True where the image is drawn anew")

    def put_back(self, state: Tensor, move: Move) -> Tensor:
        """Into the state after a move; after the last one, exactly."""
        known = self.sample if move.last else moved(Estimate(self.sample, self.noise), move.target)
        return torch.where(self.redraw, state, known.to(state))


def inpainting_input(noisy: Tensor, redraw: Tensor, known: Tensor) -> Tensor:
    """(b, c, h, w), (b, 1, h, w), (b, c, h, w) -> (b, 2c + 1, h, w). ``known`` is the image, or its latent, with
    nothing where it is drawn anew."""
    mask = redraw.to(noisy).expand(len(noisy), -1, -1, -1)
    return torch.cat((noisy, mask, known.to(noisy).expand(len(noisy), -1, -1, -1)), 1)


def latent_mask(redraw: Tensor, height: int, width: int) -> Tensor:
    """(b, 1, H, W) -> (b, 1, h, w) bool: of each cell the pixel at its beginning"""
    return F.interpolate(redraw.float(), (height, width), mode="nearest").bool()
