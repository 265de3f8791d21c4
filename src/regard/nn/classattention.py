"""Class attention: the last layers sum the patches up for one token, and leave them as they are.

Going deeper with Image Transformers (Touvron et al., 2021), https://arxiv.org/abs/2103.17239, section 3
    z = [x_class; x_patches],  q = W_q norm(x_class),  k, v = W_k norm(z), W_v norm(z)
    x_class <- x_class + l * attention(q, k, v),  x_class <- x_class + l' * MLP(norm(x_class))
The patches are the same for all such layers, and learn through them. There is one query, so the cost grows with the
number of patches, not with its square.

Shapes: b batch, n patches, d width.
"""

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .feedforward import FeedForward
from .residual import Branch, PreNorm
from .tap import Tap


class ClassBlock(nn.Module):
    def __init__(
        self, mixer: MultiHeadAttention, ffn: FeedForward, dim: int, eps: float, scale: float | None = None
    ) -> None:
        super().__init__()
        self.mixer, self.norm, self.branch = mixer, nn.LayerNorm(dim, eps), Branch(dim, scale=scale)
        self.ffn, self.ffn_residual = ffn, PreNorm(nn.LayerNorm(dim, eps), Branch(dim, scale=scale))
        self.stream = Tap()  # the token

    def forward(self, token: Tensor, patches: Tensor) -> Tensor:
        """(b, 1, d), (b, n, d) -> (b, 1, d)"""
        seen = self.norm(torch.cat((token, patches), dim=1))
        token = token + self.branch(self.mixer(seen[:, :1], seen))
        return self.stream(self.ffn_residual(token, self.ffn))
