"""Token mixing: one small network reads a feature at all positions, the same network for every feature.

MLP-Mixer: An all-MLP Architecture for Vision (Tolstikhin et al., 2021), https://arxiv.org/abs/2105.01601, section 2
    y^T = W2 act(W1 x^T), W1: s -> h and W2: h -> s over the s positions

Differs from the paper: a sequence may be shorter than s. It is then read as if zeros stood behind it, and padding is
no part of it, on whichever side it stands.

Shapes: b batch (any leading axes), n positions, s positions at most, d width, h hidden.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from ..attention import Mixer
from ..cache import Cache
from ..config import not_positive, refuse
from ..feedforward import Activation, FeedForward
from ..influence import compute_with_influence
from ..mask import ALL, Bias, Mask
from ..site import Site
from ..tap import Tap
from .whole import move_to_front, real_positions, refuse_site, undo_move_to_front


@dataclass(frozen=True, kw_only=True)
class Settings:
    hidden: int | None = None  # half of the width unless given, as in the paper
    length: int | None = None  # of the longest input; as the model says unless given

    def __post_init__(self) -> None:
        refuse(not_positive(self, "hidden", "length"))


def build(settings: Settings, site: Site) -> Mixer:
    refuse_site("token mixing", site)
    length = settings.length or site.length
    if length is None:
        raise ValueError(
            "token mixing has a weight for each position, so it needs the maximum sequence length: set `length`"
        )
    return TokenMLP(length, settings.hidden or max(site.dim // 2, 1))


class TokenMLP(Mixer):
    def __init__(self, length: int, hidden: int, act: Activation = F.gelu, dropout: float = 0.0) -> None:
        super().__init__()
        self.length = length
        self.mlp = FeedForward(length, hidden, act, dropout=dropout)
        self.influence = Tap()  # (b, 1, n, n): the norm of dy_i/dx_j

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        real = real_positions("token mixing", x, context, mask, bias, cache)
        if x.shape[-2] > self.length:
            raise ValueError(f"token mixing is built for {self.length} positions, got {x.shape[-2]}; shorten the input")
        return compute_with_influence(self.influence, self.mix, x, real)

    def mix(self, x: Tensor, real: Tensor | None) -> Tensor:
        """(b, n, d), (b, n) -> (b, n, d)"""
        n = x.shape[-2]
        front = x if real is None else move_to_front(x, real)
        y = self.mlp(F.pad(front.mT, (0, self.length - n)))[..., :n].mT
        return y if real is None else undo_move_to_front(y, real)
