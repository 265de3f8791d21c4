"""Luong attention: dot, general, concat and local-p.

Effective Approaches to Attention-based Neural Machine Translation (Luong, Pham and Manning, 2015),
https://arxiv.org/abs/1508.04025, section 3
    dot      q . k            (the kernel ``Softmax`` with scale 1)
    general  q . W k
    concat   v . tanh(W [q; k])
    local-p  look only near a predicted place p = S sigmoid(v . tanh(W q)), faded by a Gaussian around it
"""

import torch
from torch import Tensor, nn

from ..attention import Kernel, Softmax, by_rows, repeat_heads
from ..mask import ALL, Bias, Mask, add_bias, masked_softmax


class General(Kernel):
    """q . W k, with one matrix per head; W = 1 is the dot product."""

    def __init__(self, heads: int, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.matrix = nn.Parameter(torch.eye(head_dim).repeat(heads, 1, 1))
        self.dot = Softmax(dropout, scale=1.0)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.dot.weights(q @ self.matrix, k, mask, bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.dot(q @ self.matrix, k, v, mask, bias)


class Concat(Kernel):
    """v . tanh(W [q; k]); the two halves of W act on queries and keys separately, so no pair is ever concatenated."""

    def __init__(self, heads: int, head_dim: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.queries = nn.Parameter(torch.empty(heads, head_dim, head_dim))
        self.keys = nn.Parameter(torch.empty(heads, head_dim, head_dim))
        self.score = nn.Parameter(torch.empty(heads, head_dim, 1))
        for weight in (self.queries, self.keys, self.score):
            nn.init.normal_(weight, std=head_dim**-0.5)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        a, b = q @ self.queries, repeat_heads(k, q.shape[-3]) @ self.keys
        scores = (torch.tanh(a.unsqueeze(-2) + b.unsqueeze(-3)) @ self.score.unsqueeze(-3)).squeeze(-1)
        return masked_softmax(add_bias(scores, bias), mask.dense(q.shape[-2], k.shape[-2], q.device), bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return by_rows(self.explicit, q, k, v, mask, bias, footprint=q.shape[-1])


class LocalP(Kernel):
    """Softmax within 2D+1 keys around the predicted place, times exp(-(s - p)^2 / (2 (D/2)^2)): rows sum to at most 1.

    The place is a share of the whole sentence, which a decoder that still writes it cannot know: no causal form.
    """

    def __init__(self, heads: int, head_dim: int, window: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if window < 1:
            raise ValueError(f"the window of local-p attention must be at least 1, got {window}")
        self.window = window
        self.hidden = nn.Parameter(torch.empty(heads, head_dim, head_dim))
        self.place = nn.Parameter(torch.empty(heads, head_dim, 1))
        for weight in (self.hidden, self.place):
            nn.init.normal_(weight, std=head_dim**-0.5)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if mask.causal:
            raise ValueError("local-p attention predicts a position anywhere in the sequence, so it cannot be causal")
        length, places = self.places(k, mask)
        centre = length * torch.sigmoid(torch.tanh(q @ self.hidden) @ self.place)  # (b, h, q, 1)
        off = places - centre  # (b, h, q, k)
        near = off.detach().abs() <= self.window
        allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
        scores = add_bias(q @ repeat_heads(k, q.shape[-3]).mT, bias)
        inside = masked_softmax(scores, near if allowed is None else near & allowed, bias)
        return inside * torch.exp(-2 * (off / self.window) ** 2).to(inside.dtype)

    def places(self, k: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """Length of each sequence and the position of each key in it, without padding on either side."""
        precise = torch.promote_types(k.dtype, torch.float32)  # bfloat16 cannot count beyond 256
        if mask.keys is None:
            n = torch.tensor(k.shape[-2], dtype=precise, device=k.device)
            return n, torch.arange(k.shape[-2], dtype=precise, device=k.device)
        real = mask.keys[..., None, None, :].to(precise)
        return real.sum(-1, keepdim=True), real.cumsum(-1) - 1
