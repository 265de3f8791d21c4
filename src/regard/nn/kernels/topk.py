"""Top-k attention: each query looks at its k best keys and at no other.

Explicit Sparse Transformer (Zhao et al., 2019), https://arxiv.org/abs/1912.11637, section 2
The scores are still all computed; what is saved is what is looked at, not the work.
"""

import torch
from torch import Tensor

from ..attention import Kernel, repeat_heads
from ..mask import ALL, Bias, Mask, add_bias, masked_softmax


class TopK(Kernel):
    """Top-k attention: softmax over the ``keep`` largest scores of each row; of equal scores the earlier key is
    kept."""

    def __init__(self, keep: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if keep < 1:
            raise ValueError(f"keep of top-k attention must be at least 1, got {keep}")
        self.keep = keep

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
        scores = add_bias(q @ repeat_heads(k, q.shape[-3]).mT * q.shape[-1] ** -0.5, bias)
        ranked = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
        order = ranked.detach().argsort(stable=True, dim=-1, descending=True)
        best = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order[..., : self.keep], True)
        return masked_softmax(scores, best if allowed is None else best & allowed, bias)
