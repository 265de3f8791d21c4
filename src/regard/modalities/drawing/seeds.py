"""The noise of an image: it belongs to the seed and the number of the image, never to a batch.

Truncation (Brock et al., 2019), https://arxiv.org/abs/1809.11096, section 3.1, draws from the middle of the normal
distribution alone: images that look more alike, and better. Each number stays where it was among all numbers, so an
image changes little by little as the truncation does.

Shapes: z size of the noise.
"""

import torch
from torch import Tensor

from regard.data.counter_rng import IMAGES, philox, uniform_samples


def noise_of(seed: int, number: int, size: int, truncation: float | None = None) -> Tensor:
    """Standard normal numbers for image ``number`` of a seed.  -> (z,), float64"""
    shares = torch.from_numpy(uniform_samples(philox(IMAGES, seed, number), size)) + 2.0**-54  # never 0: that is -inf
    if truncation is not None:
        outside = torch.special.ndtr(torch.tensor(-truncation, dtype=torch.float64))
        shares = outside + shares * (1 - 2 * outside)
    found: Tensor = torch.special.ndtri(shares)
    return found
