"""Performer: softmax attention in linear time, by random features that are positive and orthogonal (FAVOR+).

Rethinking Attention with Performers (Choromanski et al., 2021), https://arxiv.org/abs/2009.14794, sections 2 and 3
    exp(q.k / sqrt e) = E[f(q).f(k)],    f(x) = exp(w.x' - |x'|^2 / 2),    x' = x / e^(1/4),    w random
    y = f(Q) (f(K)^T V) / f(Q) (f(K)^T 1)
Differs from the paper: exponentials are taken relative to the largest feature of each query and of each key, whose
factor is carried as a logarithm; and so is the small number that is added to features. No key has a say in how another
one is rounded, so a causal query knows nothing of later ones.

Shapes: m features, e width of a head.
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ..attention import Kernel, Mixer
from ..cache import Slot
from ..mask import ALL, Bias, Mask
from ..site import Site
from .directions import Directions, Layout, Norms
from .rfa import LEAST, Waves
from .sums import Lifted, Linear, decode, fresh, never_formed, possible

SMALL = 1e-6  # what is added to features, of which each token's largest is 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    features: int | None = None  # about e log e, in whole blocks, unless given
    form: Literal["positive", "trigonometric"] = "positive"
    directions: Layout = "orthogonal"
    norms: Norms = "chi"
    redraw: int = 1000  # calls in training until others are drawn; 0 is never


def build(settings: Settings, site: Site) -> Mixer:
    never_formed(site)
    return site.attention(Performer(site.width, settings))


class Performer(Kernel):
    """FAVOR+. In the trigonometric form features are sines and cosines: unbiased as well, but the weights of a query
    that looks sharply at little may sum to about nothing."""

    def __init__(self, width: int, settings: Settings) -> None:
        super().__init__()
        count = width * max(round(math.log(width)), 1) if settings.features is None else settings.features
        self.form = settings.form
        self.directions = Directions(count, width, settings.directions, settings.norms, settings.redraw)

    def linear(self, directions: Tensor) -> Linear:
        scale = directions.shape[-1] ** -0.25
        if self.form == "positive":
            return Linear(Exponentials(directions, scale), SMALL)  # which the weights of any key exceed
        return Linear(Waves(directions, scale), LEAST)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.linear(self.directions.matrix).weights(q, k, possible(mask, bias))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.linear(self.directions()).mix(q, k, v, possible(mask, bias)).rows

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return decode(self.linear(self.directions.matrix), slot, q, k, v, fresh(possible(mask, bias), k))


@dataclass(frozen=True)
class Exponentials:
    """exp(w.x - |x|^2 / 2) for each direction w, of x times a scale; and a little more."""

    directions: Tensor  # (m, e)
    scale: float

    def __call__(self, x: Tensor) -> Lifted:
        """(..., n, e) -> (..., n, m)"""
        powers = x @ (self.directions.to(x.dtype) * (self.scale / math.log(2.0))).T
        top = powers.detach().amax(-1, keepdim=True)
        values = (powers - top).exp2()  # of 2: close to zero the power of e is far slower
        level = top * math.log(2.0) - x.square().sum(-1, keepdim=True) * (self.scale**2 / 2)
        return Lifted(values + SMALL, level)
