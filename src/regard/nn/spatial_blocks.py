"""Attention among the pixels of a map, between the convolutions of a U-Net or of an autoencoder.

High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022), https://arxiv.org/abs/2112.10752,
section 3.3 and appendix E.2.1.

Shapes: b batch, c channels, h rows, w columns, n = h w pixels, m tokens of the context, d their width.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Mixer
from .block import Block
from .mask import ALL, Mask

Projection = Literal["linear", "convolution"]  # the shape of a weight, (c, c) or (c, c, 1, 1); what it does is the same


class PixelAttention(nn.Module):
    """x + attention(norm(x)), as DDPM has it: the pixels look at each other."""

    def __init__(self, dim: int, mixer: Mixer, *, groups: int, eps: float) -> None:
        super().__init__()
        self.norm, self.mixer = nn.GroupNorm(groups, dim, eps), mixer

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Mask = ALL) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w)"""
        if context is not None:
            raise ValueError("this net has no cross-attention (context = 0), so it cannot take a context")
        return x + as_map(self.mixer(as_pixels(self.norm(x))), x)


class SpatialTransformer(nn.Module):
    """A transformer block on the pixels, between a norm and two projections. It begins as the identity."""

    def __init__(self, dim: int, block: Block, *, groups: int, eps: float, projection: Projection) -> None:
        super().__init__()
        self.norm, self.block = nn.GroupNorm(groups, dim, eps), block
        self.into, self.out = (
            nn.Linear(dim, dim) if projection == "linear" else nn.Conv2d(dim, dim, 1) for _ in range(2)
        )
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Mask = ALL) -> Tensor:
        """(b, c, h, w), (b, m, d) -> (b, c, h, w); the mask is that of the context"""
        if context is None:
            raise ValueError("this net has cross-attention, so it needs a context, (b, m, d), to attend to")
        y = pointwise(self.into, as_pixels(self.norm(x)))
        return x + as_map(pointwise(self.out, self.block(y, context, context_mask=mask)), x)


def pointwise(layer: nn.Module, x: Tensor) -> Tensor:
    """A linear layer, or a 1x1 convolution as one, for every pixel.  (b, n, c) -> (b, n, c)"""
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return F.linear(x, layer.weight.flatten(1), layer.bias)


def as_pixels(x: Tensor) -> Tensor:
    """(b, c, h, w) -> (b, n, c), row by row; where the channels of a pixel stand together nothing is copied"""
    return x.permute(0, 2, 3, 1).flatten(1, 2)


def as_map(x: Tensor, like: Tensor) -> Tensor:
    """(b, n, c) -> (b, c, h, w)"""
    return x.unflatten(1, like.shape[-2:]).permute(0, 3, 1, 2)
