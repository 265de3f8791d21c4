"""Additive attention.

Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al., 2015),
https://arxiv.org/abs/1409.0473, appendix A.1.2
    e_ij = v . tanh(W s_i + U h_j)
A small network scores every pair, so each score costs e numbers, where a dot product costs one.
W and U are the projections to queries and keys.
"""

import torch
from torch import Tensor, nn

from ..attention import Kernel, by_rows, repeat_heads
from ..mask import ALL, Bias, Mask, add_bias, masked_softmax


class Additive(Kernel):
    """v . tanh(q + k)"""

    def __init__(self, heads: int, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.score = nn.Parameter(torch.empty(heads, head_dim, 1))
        nn.init.normal_(self.score, std=head_dim**-0.5)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        pairs = torch.tanh(q.unsqueeze(-2) + repeat_heads(k, q.shape[-3]).unsqueeze(-3))  # (b, h, q, k, e)
        scores = (pairs @ self.score.unsqueeze(-3)).squeeze(-1)
        return masked_softmax(add_bias(scores, bias), mask.dense(q.shape[-2], k.shape[-2], q.device), bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return by_rows(self.explicit, q, k, v, mask, bias, footprint=q.shape[-1])
