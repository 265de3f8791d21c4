"""Fourier mixing: a transform over the positions and the features takes the place of attention.

FNet: Mixing Tokens with Fourier Transforms (Lee-Thorp et al., 2022), https://arxiv.org/abs/2105.03824, section 3.2
    y = Re(F_positions(F_features(x))), not normalised, nothing to learn

Differs from the paper: padding is no part of a sentence. A padded row gets the transform of its own length, the same
numbers as by itself; the paper's code, and all that follow it, transform the padding along.

Shapes: b batch (any leading axes), n positions, d width.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..attention import Mixer
from ..cache import Cache
from ..influence import compute_with_influence
from ..mask import ALL, Bias, Mask
from ..site import Site
from ..tap import Tap
from .whole import move_to_front, real_positions, refuse_site, undo_move_to_front


@dataclass(frozen=True, kw_only=True)
class Settings:
    """No settings."""


def build(settings: Settings, site: Site) -> Mixer:
    refuse_site("fourier mixing", site)
    return Fourier()


class Fourier(Mixer):
    def __init__(self) -> None:
        super().__init__()
        self.influence = Tap()  # (b, 1, n, n): the norm of dy_i/dx_j

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        real = real_positions("fourier mixing", x, context, mask, bias, cache)
        return compute_with_influence(self.influence, self.mix, x, real)

    def mix(self, x: Tensor, real: Tensor | None) -> Tensor:
        """(b, n, d), (b, n) -> (b, n, d)"""
        if not x.numel():
            return x
        precise = x.to(torch.promote_types(x.dtype, torch.float32))
        if real is None:
            return torch.fft.fft2(precise).real.to(x.dtype)
        known = x.device.type == "cpu" and not torch.compiler.is_compiling()
        transform = by_length if known else at_once  # elsewhere, to ask for a length is to wait for the device
        return undo_move_to_front(transform(move_to_front(precise, real), real.sum(-1)), real).to(x.dtype)


def by_length(x: Tensor, lengths: Tensor) -> Tensor:
    """Re(fft2) of each row up to its own length, followed by zeros. (b, n, d), (b,) -> (b, n, d)"""
    y = torch.zeros_like(x)
    for length in lengths.unique().tolist():
        if length:
            rows = lengths == length
            y[..., :length, :][rows] = torch.fft.fft2(x[..., :length, :][rows]).real
    return y


def at_once(x: Tensor, lengths: Tensor) -> Tensor:
    """The same without reading the lengths on the host, at four times the cost of rows without padding.

    A real input's transform at (-i, -j) is the conjugate of that at (i, j), so half of the features tell the rest.
    """
    n, d = x.shape[-2:]
    half = chirp(torch.fft.rfft(x), lengths).real
    mirrored = (-torch.arange(n, device=x.device)) % lengths[..., None].clamp(min=1)
    rest = half[..., 1 : (d + 1) // 2].take_along_dim(mirrored[..., None], -2).flip(-1)
    return torch.cat((half, rest), -1)


def chirp(z: Tensor, lengths: Tensor) -> Tensor:
    """The Fourier transform of each row at its own length, all rows at once.  complex (b, n, d), (b,) -> (b, n, d)

    Bluestein (1970), https://doi.org/10.1109/TAU.1970.1162132: with 2jk = j^2 + k^2 - (k - j)^2 a transform of any
    length is a convolution, and that is done with transforms of one length for all.
    """
    n = z.shape[-2]
    length = lengths[..., None].clamp(min=1)

    def wave(places: Tensor) -> Tensor:
        """exp(i pi p^2 / length), whose angle is reduced in whole numbers: p^2 itself would be too large to be exact"""
        angle = (places.square() % (2 * length)) * (math.pi / length.double())
        return torch.polar(torch.ones_like(angle), angle).to(z.dtype)[..., None]

    places = torch.arange(n, device=z.device)
    around = torch.arange(2 * n, device=z.device)
    around = torch.where(around < n, around, around - 2 * n)  # a convolution in a circle: the end stands before 0
    down = wave(places).conj()
    spectrum = torch.fft.fft(z * down, 2 * n, -2) * torch.fft.fft(wave(around), dim=-2)
    return torch.fft.ifft(spectrum, dim=-2)[..., :n, :] * down
