"""Talking heads: the heads exchange their scores before the softmax and their weights after it.

Talking-Heads Attention (Shazeer et al., 2020), https://arxiv.org/abs/2003.02436; as CaiT (Touvron et al., 2021),
https://arxiv.org/abs/2103.17239, uses it, with a bias in both exchanges.
Rows need not sum to 1. A masked key gets nothing, although the second exchange's bias would give it something.
"""

import torch
from torch import Tensor, nn

from ..attention import Kernel, repeat_heads
from ..mask import ALL, Bias, Mask, add_bias, masked_softmax


class TalkingHeads(Kernel):
    def __init__(self, heads: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.before = nn.Linear(heads, heads)
        self.after = nn.Linear(heads, heads)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
        scores = exchange(self.before, q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5)
        weights = exchange(self.after, masked_softmax(add_bias(scores, bias), allowed, bias))
        return weights if allowed is None else weights.masked_fill(~allowed, 0.0)


def exchange(linear: nn.Linear, x: Tensor) -> Tensor:
    """A linear map over the heads: one flat product. With heads moved to the end, it would be millions of tiny ones.

    (b, h, q, k) -> (b, h, q, k)
    """
    return torch.einsum("gh,...hqk->...gqk", linear.weight, x) + linear.bias[:, None, None]
