"""The convolutions of a U-Net and of an autoencoder: residual blocks that may know the time, half and twice the size.

Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239, appendix B.

Shapes: b batch, c channels of what comes in, e channels of what goes out, h rows, w columns, t width of the time.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Dropout
from .feedforward import Activation

LONGEST = 10_000  # the slowest wave turns once in about 2 pi times as many steps
Padding = Literal["both", "end"]  # of a convolution that halves: zeros around, or after the last row and column alone


@dataclass(frozen=True)
class ConvolutionStyle:
    """What all residual blocks of one net share."""

    groups: int
    eps: float
    act: Activation
    dropout: float = 0.0
    time: int | None = None  # width of the time, where there is one


class TimedResidual(nn.Module):
    """x + conv(act(norm(conv(act(norm(x))) + time))); x itself passes a 1x1 convolution where the widths differ."""

    def __init__(self, dim: int, out: int, style: ConvolutionStyle) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.GroupNorm(style.groups, width, style.eps) for width in (dim, out))
        self.convolution1, self.convolution2 = nn.Conv2d(dim, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time = None if style.time is None else nn.Linear(style.time, out)
        self.shortcut = None if dim == out else nn.Conv2d(dim, out, 1)
        self.act, self.dropout = style.act, Dropout(style.dropout)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """(b, c, h, w), (b, t) -> (b, e, h, w)"""
        y = self.convolution1(self.act(self.norm1(x)))
        if self.time is not None and time is not None:
            y = y + self.time(time)[:, :, None, None]
        y = self.convolution2(self.dropout(self.act(self.norm2(y))))
        return y + (x if self.shortcut is None else self.shortcut(x))


class Halving(nn.Module):
    """Half as many rows and columns: with zeros at both ends an odd number is rounded up, at the end alone down."""

    def __init__(self, dim: int, padding: Padding) -> None:
        super().__init__()
        self.padding = padding
        self.convolution = nn.Conv2d(dim, dim, 3, stride=2, padding=1 if padding == "both" else 0)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, h/2, w/2)"""
        return self.convolution(F.pad(x, (0, 1, 0, 1)) if self.padding == "end" else x)


class Doubling(nn.Module):
    """Every pixel is repeated, twice in each direction or as the new size wants it, and a convolution smooths it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """(b, c, h, w) -> (b, c, 2h, 2w), or of another size"""
        size = size or (2 * x.shape[-2], 2 * x.shape[-1])
        return self.convolution(F.interpolate(x, size=size, mode="nearest"))


class TimeEmbedding(nn.Module):
    """Sines and cosines of the time step, and two linear layers. ``shift`` is 1 where the last wave is the slowest
    of all, as in the first code of DDPM, and 0 where it is the one before that."""

    def __init__(self, dim: int, out: int, act: Activation, *, cosines_first: bool, shift: int) -> None:
        super().__init__()
        self.dim, self.cosines_first, self.shift = dim, cosines_first, shift
        self.up, self.down, self.act = nn.Linear(dim, out), nn.Linear(out, out), act

    def waves(self, time: Tensor) -> Tensor:
        """(b,) -> (b, dim). In float32 whatever the weights are, as trained weights have seen it."""
        half = self.dim // 2
        steps = torch.arange(half, device=time.device, dtype=torch.float32)
        angle = time[:, None].float() * torch.exp(-math.log(LONGEST) * steps / (half - self.shift))
        both = (angle.cos(), angle.sin()) if self.cosines_first else (angle.sin(), angle.cos())
        return F.pad(torch.cat(both, -1), (0, self.dim % 2))

    def forward(self, time: Tensor) -> Tensor:
        """(b,) -> (b, t)"""
        return self.down(self.act(self.up(self.waves(time).to(self.up.weight.dtype))))
