"""An image's coarse and its fine part: its Fourier transform within a radius, and beyond.

Improving Vision Transformers by Revisiting High-frequency Components (Bai et al., 2022), https://arxiv.org/abs/2204.00993,
section 3: how well a model does with one part alone tells by which frequencies it sees.

Shapes: b batch (any leading axes), h rows, w columns.
"""

import torch
from torch import Tensor


def frequency_distances(height: int, width: int, device: torch.device) -> Tensor:
    """How far each frequency is from the constant one, in waves over the image.  -> (h, w), as fft2 orders them"""
    down = torch.fft.fftfreq(height, 1 / height, device=device)
    along = torch.fft.fftfreq(width, 1 / width, device=device)
    return (down[:, None].square() + along.square()).sqrt()


def low_pass(images: Tensor, radius: float) -> Tensor:
    """Low-pass filter: frequencies up to ``radius`` waves per image.  (b, h, w) -> (b, h, w)"""
    kept = frequency_distances(images.shape[-2], images.shape[-1], images.device) <= radius
    return torch.fft.ifft2(torch.fft.fft2(images) * kept).real


def high_pass(images: Tensor, radius: float) -> Tensor:
    """High-pass filter: the image minus its low-pass part.  (b, h, w) -> (b, h, w)"""
    return images - low_pass(images, radius)


def power_spectrum(images: Tensor) -> Tensor:
    """The mean power of the frequencies by their distance, in rings of one wave.  (b, h, w) -> (b, rings)

    The last ring holds the distance of the corner, so that all power is in one of them.
    """
    height, width = images.shape[-2:]
    power = torch.fft.fft2(images).abs().square().flatten(-2)
    rings = frequency_distances(height, width, images.device).round().long().flatten()
    count = torch.bincount(rings)
    total = power.new_zeros(*power.shape[:-1], len(count)).index_add(-1, rings, power)
    return total / count.clamp(min=1)
