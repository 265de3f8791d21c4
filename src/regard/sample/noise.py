"""Noise by address: what one image gets in one step never depends on the others, nor on the device.

Philox 4x32-10: Salmon et al. (2011), https://doi.org/10.1145/2063384.2063405: numbers made by counting. torch.Generator
cannot do this: on a CPU it looks only at the lower 32 bits of its seed, so that among the steps of a thousand images
two would get the same noise.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
START, FRESH = range(2)  # each use has its own numbers


class ImageNoise:
    """Of the images with these numbers. Called with the index of a move, it gives the noise of that move."""

    def __init__(
        self,
        seed: int,
        images: Sequence[int],
        shape: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if any(not 0 <= image <= MASK for image in images):
            raise ValueError(f"numbers of images must be at least 0 and at most {MASK}: {list(images)[:5]}")
        self.seed, self.images, self.shape, self.dtype, self.device = seed, tuple(images), tuple(shape), dtype, device

    def start(self) -> Tensor:
        """(b, *shape), that a run begins with"""
        return self.drawn(START, 0)

    def __call__(self, step: int) -> Tensor:
        """(b, *shape)"""
        return self.drawn(FRESH, step)

    def drawn(self, use: int, step: int) -> Tensor:
        """One image at a time: where a number stands among others can change its last bit."""
        found = [normal_numbers(math.prod(self.shape), self.seed, image, use, step) for image in self.images]
        return torch.stack(found).view(len(found), *self.shape).to(self.device, self.dtype)


def normal_numbers(count: int, seed: int, image: int, use: int, step: int) -> Tensor:
    """(count,) float64"""
    blocks = torch.arange((count + 1) // 2)
    address = [torch.full_like(blocks, x & MASK) for x in (step, image, use)]
    words = philox_words(torch.stack((blocks, *address), 1), seed).view(-1, 2)
    fractions = ((words[:, 0] << 20) + (words[:, 1] >> 12)).double()
    return torch.special.ndtri((fractions + 0.5) * 2.0**-52)[:count]  # of 52 bits, never 0 or 1


def philox_words(counters: Tensor, seed: int) -> Tensor:
    """(n, 4) -> (n, 4): words of 32 bits, in int64"""
    a, b, c, d = counters.unbind(1)
    key, other = seed & MASK, seed >> 32 & MASK
    for _ in range(10):
        left, right = a * MULTIPLIERS[0], c * MULTIPLIERS[1]  # wraps around; all 64 bits are right
        a, b, c, d = (right >> 32 & MASK) ^ b ^ key, right & MASK, (left >> 32 & MASK) ^ d ^ other, left & MASK
        key, other = key + WEYL[0] & MASK, other + WEYL[1] & MASK
    return torch.stack((a, b, c, d), 1)
