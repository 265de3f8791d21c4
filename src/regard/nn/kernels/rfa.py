"""Random feature attention: a Gaussian kernel between directions, in linear time, by random sines and cosines.

Random Feature Attention (Peng et al., 2021), https://arxiv.org/abs/2103.02143, after Random Features for Large-Scale
Kernel Machines (Rahimi and Recht, 2007)
    f(x) = [sin(w_1.x) .. sin(w_D.x), cos(w_1.x) .. cos(w_D.x)] / sqrt D,    E[f(x).f(y)] = exp(-|x - y|^2 / 2)
    y = f(q) (f(K)^T V) / f(q) (f(K)^T 1),    q and k of length s, learned for each head
Between vectors of length s this is softmax attention of the cosines, at the inverse temperature s^2.
With a gate, older keys fade: S_t = g_t S_(t-1) + (1 - g_t) f(k_t) v_t^T, and so their sum; g = sigmoid(u.k + a).
Without a causal mask every query reads the last state.
Differs from the paper: the gate reads the key, which is made of the token, not the token itself; directions are drawn
anew every so many steps, not for each example from a pool.

Shapes: h heads, e width of a head, D directions, m = 2D features.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Kernel, Mixer, repeat_heads
from ..cache import Slot
from ..mask import ALL, Bias, Mask
from ..site import Site
from .directions import Directions, Layout, Norms
from .sums import Lifted, LinearAttention, decode, fresh, never_formed, possible, precise

LEAST = 0.05  # the sum of a query's weights, relative to its nearest key, if it is an estimate that may be zero


@dataclass(frozen=True, kw_only=True)
class Settings:
    features: int | None = None  # directions, of which each gives a sine and a cosine; 2e unless given
    gate: bool = False  # whether older keys fade
    directions: Layout = "independent"
    norms: Norms = "chi"
    redraw: int = 1000  # calls in training until others are drawn; 0 is never


def build(settings: Settings, site: Site) -> Mixer:
    never_formed(site)
    return site.attention(RandomFeatures(site.heads, site.width, settings))


class RandomFeatures(Kernel):
    """Random feature attention (RFA). The logarithm of the scale s is learned and starts at 0."""

    def __init__(self, heads: int, width: int, settings: Settings) -> None:
        super().__init__()
        count = 2 * width if settings.features is None else settings.features
        self.directions = Directions(count, width, settings.directions, settings.norms, settings.redraw)
        self.log_scale = nn.Parameter(torch.zeros(heads, 1, 1))
        self.gate = DecayGate(heads, width) if settings.gate else None

    def turned(self, x: Tensor) -> Tensor:
        """(..., g, n, e) -> (..., h, n, e), of length s"""
        return F.normalize(repeat_heads(precise(x), len(self.log_scale)), dim=-1) * self.log_scale.exp()

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        mask, linear = possible(mask, bias), LinearAttention(FourierFeatures(self.directions.matrix, 1.0), LEAST)
        level = None if self.gate is None else self.gate(k, mask.keys).level
        return linear.weights(self.turned(q), self.turned(k), mask, level).to(q.dtype)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        mask, linear = possible(mask, bias), LinearAttention(FourierFeatures(self.directions(), 1.0), LEAST)
        level = None if self.gate is None else self.gate(k, mask.keys).level
        return linear.mix(self.turned(q), self.turned(k), v, mask, level).rows.to(q.dtype)

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        mask, linear = (
            fresh(slot, possible(mask, bias), k),
            LinearAttention(FourierFeatures(self.directions.matrix, 1.0), LEAST),
        )
        level = None
        if self.gate is not None:
            faded = self.gate(k, mask.keys, slot.tensors.get("kept"))
            level, slot["kept"] = faded.level, faded.kept
        return decode(linear, slot, self.turned(q), self.turned(k), v, mask, level).to(q.dtype)


@dataclass(frozen=True)
class Faded:
    level: Tensor  # (..., h, k): of each key against those before it
    kept: Tensor  # (..., h, 1): the logarithm of what all gates so far leave of a first state


class DecayGate(nn.Module):
    """At t, key j has the weight (1 - g_j) g_(j+1) .. g_t. What stands in it of t alone cancels in the quotient, so the
    gate is a level: log(1 - g_j) - log(g_1 .. g_j). It starts at sigmoid(3): a key lasts some 20 steps."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, 1, width))
        self.bias = nn.Parameter(torch.full((heads, 1), 3.0))

    def forward(self, k: Tensor, real: Tensor | None, kept: Tensor | None = None) -> Faded:
        """(..., g, k, e), (..., k), (..., h, 1)"""
        opened = (precise(repeat_heads(k, len(self.weight))) * self.weight).sum(-1) + self.bias
        left = F.logsigmoid(opened)
        left = left if real is None else left.masked_fill(~real[..., None, :], 0.0)  # padding lets nothing fade
        kept = left.new_zeros(*left.shape[:-1], 1) if kept is None else kept
        products = torch.cat((kept, left), -1).cumsum(-1, dtype=torch.float64)  # of thousands of gates
        return Faded(F.logsigmoid(-opened) - products[..., 1:], products[..., -1:])


@dataclass(frozen=True)
class FourierFeatures:
    """sin(w.x) and cos(w.x) for each direction w, of x times a scale; and the factor exp(|x|^2 / 2), with which the
    Gaussian kernel of x and y is exp(x.y)."""

    directions: Tensor  # (D, e)
    scale: float

    def __call__(self, x: Tensor) -> Lifted:
        """(..., n, e) -> (..., n, 2D)"""
        angles = x @ (self.directions.to(x.dtype) * self.scale).T
        values = torch.cat((angles.sin(), angles.cos()), -1) * len(self.directions) ** -0.5
        return Lifted(values, x.square().sum(-1, keepdim=True) * (self.scale**2 / 2))
