"""Convolutions: with a norm behind each, blind to padding, and how far they see.

Batch Normalization (Ioffe and Szegedy, 2015), https://arxiv.org/abs/1502.03167

Images of several sizes stand in one batch at its top left, ``sizes`` tells how many rows and columns of each are real,
and after every convolution what stands at padding is zero again. So each image gets the numbers that it would get
alone: at its border there are zeros in either case.

Shapes: b batch, c channels, h rows and w columns of a map; sizes is (b, 2), rows and columns.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOMENTUM, EPS = 0.1, 1e-5


class BatchNorm(nn.Module):
    """Each channel to mean 0 and variance 1: over the batch in training, by their running means afterwards."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w)"""
        mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        return F.batch_norm(x, mean, variance, self.weight, self.bias, self.training, MOMENTUM, EPS)


class FrozenBatchNorm(nn.Module):
    """The same with nothing to learn: a fixed factor and a fixed shift for each channel, in training too."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        for name, start in {"weight": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}.items():
            self.register_buffer(name, torch.full((dim,), start))

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, c, h, w)"""
        scale = self.get_buffer("weight") * (self.get_buffer("variance") + EPS).rsqrt()
        shift = self.get_buffer("bias") - self.get_buffer("mean") * scale
        return x * scale[:, None, None] + shift[:, None, None]


Norm = Callable[[int], nn.Module]


class Convolution(nn.Module):
    """A convolution without a bias, its norm, and zeros at padding; a map as large as the input's, over the stride."""

    def __init__(self, dim: int, out: int, kernel: int, norm: Norm, stride: int = 1) -> None:
        super().__init__()
        self.window = Window(kernel, stride)
        self.convolution = nn.Conv2d(dim, out, kernel, stride, padding=kernel // 2, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, mode="fan_out", nonlinearity="relu")
        self.norm = norm(out)

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, c, h, w) -> (b, out, h/stride, w/stride); sizes are those of what comes in"""
        if sizes is not None and self.training and isinstance(self.norm, BatchNorm):
            raise ValueError("batch norm would count padding in training: freeze it, or give images of one size")
        return blank(self.norm(self.convolution(x)), after(sizes, self.window.stride))


def after(sizes: Tensor | None, stride: int) -> Tensor | None:
    """Sizes behind an odd window that is padded by half of itself: rounded up."""
    return None if sizes is None else (sizes + stride - 1) // stride


def real(sizes: Tensor, rows: int, columns: int) -> Tensor:
    """(b, 2) -> (b, rows, columns), False at padding"""
    down = torch.arange(rows, device=sizes.device) < sizes[:, :1]
    along = torch.arange(columns, device=sizes.device) < sizes[:, 1:]
    return down[:, :, None] & along[:, None]


def blank(x: Tensor, sizes: Tensor | None) -> Tensor:
    """Zeros at padding.  (b, c, h, w) -> (b, c, h, w)"""
    return x if sizes is None else x.masked_fill(~real(sizes, *x.shape[-2:])[:, None], 0.0)


def fitted_sizes(sizes: Tensor | None, images: Tensor) -> Tensor | None:
    """The sizes of these images; those that cannot be are refused."""
    if sizes is None:
        return None
    if sizes.shape != (len(images), 2):
        raise ValueError(f"sizes of {tuple(sizes.shape)} do not fit {len(images)} images, expected a pair for each")
    if not torch.compiler.is_compiling() and not sizes.is_meta and sizes.numel():
        most = torch.tensor(images.shape[-2:], device=sizes.device)
        if not bool(((sizes >= 1) & (sizes <= most)).all()):
            raise ValueError(
                f"sizes must be from 1 x 1 to {images.shape[-2]} x {images.shape[-1]}, got {sizes.tolist()}"
            )
    return sizes


@dataclass(frozen=True)
class Window:
    """What one layer sees of the layer below: a convolution, or a pooling."""

    kernel: int
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class Field:
    """What one unit sees of the image, along one side: so many pixels, and its neighbour's begin ``step`` further."""

    size: int = 1
    step: int = 1


def receptive_field(windows: Iterable[Window]) -> Field:
    """r_l = r_(l-1) + (k_l - 1) d_l j_(l-1) and j_l = j_(l-1) s_l, from the first layer to the last."""
    field = Field()
    for window in windows:
        reach = (window.kernel - 1) * window.dilation * field.step
        field = Field(field.size + reach, field.step * window.stride)
    return field
