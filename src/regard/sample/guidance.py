"""Classifier-free guidance. Ho & Salimans (2022), https://arxiv.org/abs/2207.12598

What is asked for is followed beyond what was trained: u + scale (c - u), from the predictions with (c) and without (u)
it.

Rescaled: Lin et al. (2023), https://arxiv.org/abs/2305.08891, section 3.4: guidance makes predictions larger; a share
of each is scaled back to the standard deviation of c.

Differs from the paper: scale is 1 + w, as everywhere since.

Shapes: b images of any shape.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Denoiser = Callable[[Tensor, Tensor], Tensor]  # noisy (b, ...), time (b,) -> prediction (b, ...)


def guided(conditional: Tensor, unconditional: Tensor, scale: float, rescale: float = 0.0) -> Tensor:
    """(b, ...), (b, ...) -> (b, ...); scale 1 gives the conditional prediction itself, 0 the unconditional one."""
    if scale == 1:
        return conditional
    found = unconditional + scale * (conditional - unconditional)
    if not rescale:
        return found
    wanted, got = spread(conditional), spread(found)
    ratio = torch.where(got > 0, wanted / got, 1.0)  # a constant prediction has nothing to scale
    return rescale * (found * ratio) + (1 - rescale) * found


def spread(x: Tensor) -> Tensor:
    """(b, ...) -> (b, 1, 1, ...)"""
    return x.std(dim=tuple(range(1, x.ndim)), keepdim=True)


def guided_denoiser(conditional: Denoiser, unconditional: Denoiser, scale: float, rescale: float = 0.0) -> Denoiser:
    """Asks both, or only the one that counts."""
    if scale == 1:
        return conditional

    def denoise(noisy: Tensor, time: Tensor) -> Tensor:
        return guided(conditional(noisy, time), unconditional(noisy, time), scale, rescale)

    return denoise
