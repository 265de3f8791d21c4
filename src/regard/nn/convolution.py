"""Convolutions: with a norm behind each, blind to padding, and how far they see.

Images of several sizes stand in one batch at its top left, ``sizes`` tells how many rows and columns of each are real,
and after every convolution what stands at padding is zero again. So each image gets the numbers that it would get
alone: at its border there are zeros in either case.

Shapes: b batch, c channels, h rows and w columns of a map; sizes is (b, 2), rows and columns.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .batchnorm import BatchNorm, ChannelNorm
from .folding import Foldable

Norm = Callable[[int], ChannelNorm]


class Convolution(Foldable):
    """A convolution without a bias, its norm, and zeros at padding; the output has the size of the input divided by the
    stride."""

    def __init__(self, dim: int, out: int, kernel: int, norm: Norm, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.window = LayerWindow(kernel, stride, dilation)
        self.convolution = nn.Conv2d(dim, out, kernel, stride, dilation * (kernel // 2), dilation, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, mode="fan_out", nonlinearity="relu")
        self.norm: nn.Module = norm(out)

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b, out, h/stride, w/stride); sizes are those of what comes in"""
        y, sizes = self.convolution(x), halved_sizes(sizes, self.window.stride)
        if sizes is not None and isinstance(self.norm, BatchNorm):
            return zero_beyond(self.norm(y, real_pixels(sizes, *y.shape[-2:])), sizes)  # padding is not measured
        return zero_beyond(self.norm(y), sizes)

    def folded(self) -> "Convolution":
        if isinstance(self.norm, ChannelNorm):
            factor, shift = self.norm.factor(), self.norm.shift()
            self.convolution.weight = nn.Parameter(self.convolution.weight * factor[:, None, None, None])
            self.convolution.bias, self.norm = nn.Parameter(shift), nn.Identity()
        return self


def halved_sizes(sizes: Tensor | None, stride: int) -> Tensor | None:
    """Sizes behind an odd window that is padded by half of itself: rounded up."""
    return None if sizes is None else (sizes + stride - 1) // stride


def real_pixels(sizes: Tensor, rows: int, columns: int) -> Tensor:
    """(b, 2) -> (b, rows, columns), False at padding"""
    down = torch.arange(rows, device=sizes.device) < sizes[:, :1]
    along = torch.arange(columns, device=sizes.device) < sizes[:, 1:]
    return down[:, :, None] & along[:, None]


def zero_beyond(x: Tensor, sizes: Tensor | None) -> Tensor:
    """Zeros at padding.  (b, c, h, w) -> (b, c, h, w)"""
    return x if sizes is None else x.masked_fill(~real_pixels(sizes, *x.shape[-2:])[:, None], 0.0)


def fitted_sizes(sizes: Tensor | None, images: Tensor) -> Tensor | None:
    """The sizes of these images without padding, validated."""
    if sizes is None:
        return None
    if sizes.shape != (len(images), 2):
        raise ValueError(
            f"sizes must have the shape ({len(images)}, 2), one pair for each image, got {tuple(sizes.shape)}"
        )
    if not torch.compiler.is_compiling() and not sizes.is_meta and sizes.numel():
        most = torch.tensor(images.shape[-2:], device=sizes.device)
        if not bool(((sizes >= 1) & (sizes <= most)).all()):
            raise ValueError(
                f"sizes must be from 1 x 1 to {images.shape[-2]} x {images.shape[-1]}, got {sizes.tolist()}"
            )
    return sizes


@dataclass(frozen=True)
class LayerWindow:
    """Window of one layer, a convolution or a pooling, for ``receptive_field``."""

    kernel: int
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class Field:
    """Receptive field of one unit along one side, in pixels; that of its neighbour begins ``step`` pixels further."""

    size: int = 1
    step: int = 1


def receptive_field(windows: Iterable[LayerWindow]) -> Field:
    """r_l = r_(l-1) + (k_l - 1) d_l j_(l-1) and j_l = j_(l-1) s_l, from the first layer to the last."""
    field = Field()
    for window in windows:
        reach = (window.kernel - 1) * window.dilation * field.step
        field = Field(field.size + reach, field.step * window.stride)
    return field
