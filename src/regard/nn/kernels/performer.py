"""Performer: softmax attention in linear time, by random features that are positive and orthogonal (FAVOR+).

Rethinking Attention with Performers (Choromanski et al., 2021), https://arxiv.org/abs/2009.14794, sections 2 and 3
    exp(q.k / sqrt e) = E[f(q).f(k)],    f(x) = exp(w.x' - |x'|^2 / 2),    x' = x / e^(1/4),    w random
    y = f(Q) (f(K)^T V) / f(Q) (f(K)^T 1)
Differs from the paper: what is added to features against sums of nothing hangs on each token alone, not on a maximum of
all keys. So a causal query knows nothing of later ones. And it is not a small constant but twice the standard error of
a mean of the token's features, e^(|x'|^2 / 2) / sqrt m, up to 4, where features are 1 on average: where features are
mostly noise, a query looks at all keys alike instead of at some by chance. It falls as errors do.

Shapes: m features, e width of a head.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..attention import Kernel, Mixer
from ..cache import Slot
from ..config import not_at_least, refuse
from ..mask import ALL, Bias, Mask
from ..site import Site
from .directions import Directions, Layout, Norms
from .rfa import LEAST, FourierFeatures
from .sums import Lifted, LinearAttention, decode, fresh, never_formed, possible

LOG2E = 1.0 / math.log(2.0)
SMALL = 1e-6  # added to features in any case
MOST = 4.0  # added at most: a key that is far out must not outshine all others
TINY = 1e-37  # a sum of weights that is none


@dataclass(frozen=True, kw_only=True)
class Settings:
    features: int | None = None  # about e log e, in whole blocks, unless given
    form: Literal["positive", "trigonometric"] = "positive"
    directions: Layout = "orthogonal"
    norms: Norms = "chi"
    added: float = 2.0  # standard errors that are added to positive features
    redraw: int = 1000  # calls in training until others are drawn; 0 is never

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "added"))


def build(settings: Settings, site: Site) -> Mixer:
    never_formed(site)
    return site.attention(Performer(site.width, settings))


class Performer(Kernel):
    """FAVOR+: linear attention with positive random features. The trigonometric form (sines and cosines) is unbiased as
    well, but the weights of a sharply focused query may sum to nearly 0."""

    def __init__(self, width: int, settings: Settings) -> None:
        super().__init__()
        count = width * max(round(math.log(width)), 1) if settings.features is None else settings.features
        self.form, self.added = settings.form, settings.added
        self.directions = Directions(count, width, settings.directions, settings.norms, settings.redraw)

    def linear(self, directions: Tensor) -> LinearAttention:
        scale = directions.shape[-1] ** -0.25
        if self.form == "positive":
            return LinearAttention(Exponentials(directions, scale, self.added), TINY)
        return LinearAttention(FourierFeatures(directions, scale), LEAST)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.linear(self.directions.matrix).weights(q, k, possible(mask, bias))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.linear(self.directions()).mix(q, k, v, possible(mask, bias)).rows

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return decode(self.linear(self.directions.matrix), slot, q, k, v, fresh(slot, possible(mask, bias), k))


@dataclass(frozen=True)
class Exponentials:
    """exp(w.x - |x|^2 / 2) for each direction w, of x times a scale; and a little more."""

    directions: Tensor  # (m, e)
    scale: float
    added: float

    def __call__(self, x: Tensor) -> Lifted:
        """(..., n, e) -> (..., n, m). Powers are those of 2: of e they are far slower where they come near to zero."""
        powers = x @ (self.directions.to(x.dtype) * (self.scale * LOG2E)).T
        half = x.square().sum(-1, keepdim=True) * (self.scale**2 / 2)
        noise = half.clamp(max=60.0).exp() * (self.added * len(self.directions) ** -0.5)
        more = noise.clamp(max=MOST) + SMALL
        half = half * LOG2E
        level = torch.maximum(powers.detach().amax(-1, keepdim=True) - half.detach(), more.detach().log2())
        values = (powers - (half + level)).exp2() + more * (-level).exp2()
        return Lifted(values, level / LOG2E)
