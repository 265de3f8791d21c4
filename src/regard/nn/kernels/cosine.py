"""Scaled cosine attention.

Swin Transformer V2 (Liu et al., 2022), https://arxiv.org/abs/2111.09883, section 3.3
    score = cos(q, k) / tau, tau learned for each head and at least 0.01
Scores stay within 1/tau however large the activations grow.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Kernel, Softmax
from ..mask import ALL, Bias, Mask


class Cosine(Kernel):
    """Cosine attention. The logarithm of 1/tau is learned, starts at log 10 and is clamped to log 100."""

    def __init__(self, heads: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.dot = Softmax(dropout, scale=1.0)

    def turned(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) * self.log_scale.clamp(max=math.log(100.0)).exp()

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.dot.weights(self.turned(q), F.normalize(k, dim=-1), mask, bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.dot(self.turned(q), F.normalize(k, dim=-1), v, mask, bias)
