"""Pairwise functions without a softmax: a mean over all keys, each times how it goes with the query.

Non-local Neural Networks (Wang, Girshick, Gupta and He, 2018), https://arxiv.org/abs/1711.07971, section 3.2
    dot product    f(q, k) = q . k               and the result divided by the number of keys
    concatenation  f(q, k) = relu(w . [q; k])    and the same
The other two of the paper, Gaussian and embedded Gaussian, are ``Softmax`` with scale 1.
Rows need not sum to 1, and those of the dot product may be negative.

Differs from the paper: keys that may not be looked at do not count.
"""

import torch
from torch import Tensor, nn

from ..attention import Kernel, by_rows, repeat_heads
from ..mask import ALL, Bias, Mask, add_bias


class MeanDot(Kernel):
    """q . k / n. Without a softmax the product of keys and values may come first: linear in the number of keys."""

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return averaged(add_bias(q @ repeat_heads(k, q.shape[-3]).mT, bias), mask, bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        dropping = self.training and self.dropout.p > 0
        if dropping or bias is not None or mask.causal or mask.pairs is not None:
            return by_rows(self.explicit, q, k, v, mask, bias)
        k, v = repeat_heads(k, q.shape[-3]), repeat_heads(v, q.shape[-3])
        if mask.keys is None:
            return q @ (k.mT @ v / max(k.shape[-2], 1))
        keys = mask.keys[..., None, :, None]
        return q @ (k.masked_fill(~keys, 0.0).mT @ v / keys.sum(-2, keepdim=True).clamp(min=1))


class MeanConcat(Kernel):
    """relu(w . [q; k]) / n; the two halves of w act on queries and keys separately, so no pair is ever concatenated."""

    def __init__(self, heads: int, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.queries = nn.Parameter(torch.empty(heads, head_dim, 1))
        self.keys = nn.Parameter(torch.empty(heads, head_dim, 1))
        for weight in (self.queries, self.keys):
            nn.init.normal_(weight, std=head_dim**-0.5)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        scores = torch.relu(q @ self.queries + (repeat_heads(k, q.shape[-3]) @ self.keys).mT)
        return averaged(add_bias(scores, bias), mask, bias)


def averaged(scores: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
    """Divide by the number of keys that may be attended to. (..., h, q, k) -> (..., h, q, k)"""
    allowed = mask.dense(scores.shape[-2], scores.shape[-1], scores.device)
    if bias is not None:  # minus infinity in it forbids
        possible = scores > -torch.inf
        allowed = possible if allowed is None else allowed & possible
    if allowed is None:
        return scores / max(scores.shape[-1], 1)
    return scores.masked_fill(~allowed, 0.0) / allowed.sum(-1, keepdim=True).clamp(min=1)
