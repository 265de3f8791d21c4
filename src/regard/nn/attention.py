"""Attention: one mixer (projections, heads, cache) around one kernel (who looks at whom).

Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762, section 3.2
    Attention(Q, K, V) = softmax(Q K^T / sqrt(e)) V

Shapes: b batch (any leading axes), q queries, k keys, h heads, g groups of heads that share keys and values,
d width of the model, e width of a head, f width of a head's values.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cache import Cache, Slot
from .dropout import Dropout
from .mask import ALL, Bias, Mask, add_bias, masked_softmax
from .positions import Rotary
from .recomputation import RowPart, compute_in_parts
from .tap import Tap

DENSE = 1 << 20  # scores of one head that may stand in memory at once; beyond, attention goes tile by tile


class Mixer(nn.Module):
    """Base class of everything that mixes positions, such as attention: (b, q, d) -> (b, q, d).

    What a mixer cannot honour (a context, a mask, a bias, a cache) it refuses with a ValueError; it never ignores it.
    """

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        raise NotImplementedError


class Kernel(nn.Module):
    """Base class of attention functions on projected heads (q, k, v).

    ``weights`` is the definition and ``forward`` a way to compute it: for every kernel
    ``forward(q, k, v) == weights(q, k) @ v``. A fast kernel overrides ``forward`` and never forms the matrix there;
    ``weights`` still forms it for whoever wants to look. Keys and values may have fewer heads than the queries.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        """(b, h, q, e), (b, g, k, e) -> (b, h, q, k)"""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        """(b, h, q, e), (b, g, k, e), (b, g, k, f) -> (b, h, q, f)"""
        return by_rows(self.explicit, q, k, v, mask, bias)

    def explicit(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        return self.dropout(self.weights(q, k, mask, bias)) @ repeat_heads(v, q.shape[-3])

    def step(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        """One decoding step: q, k, v of the new positions only -> (b, h, q, f); the past is in the slot."""
        return self(q, slot.append("k", k), slot.append("v", v), mask, bias)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat grouped keys or values for all heads, h/g consecutive heads a group.  (b, g, k, e) -> (b, h, k, e)"""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], -3)


Attend = Callable[[Tensor, Tensor, Tensor, Mask, Bias | None], Tensor]


def by_rows(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None, footprint: int = 1
) -> Tensor:
    """Compute attention for some queries at a time, so that few scores of ``footprint`` numbers are in memory at once.

    It serves every kernel in which a query's weights depend on no other query. In training each part is computed
    again for its gradient, so that the parts do not add up to the whole matrix.
    """
    rows, columns = q.shape[-2], k.shape[-2]
    if rows * columns * footprint <= DENSE:
        return attend(q, k, v, mask, bias)
    height = max(DENSE // (columns * footprint), 1)

    def part(tile: slice) -> RowPart:
        seen = slice(0, mask.reach(tile, columns))

        def make(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend(q, k, v, mask.tile(tile, seen.stop), None if bias is None else bias.tile(tile, seen.stop))

        return RowPart(tile, (tile, seen, seen), make)

    return compute_in_parts([part(slice(top, min(top + height, rows))) for top in range(0, rows, height)], q, k, v)


class Softmax(Kernel):
    """Scaled dot-product attention by PyTorch's fused kernel. Nothing of size q x k is stored unless it is small."""

    def __init__(self, dropout: float = 0.0, scale: float | None = None) -> None:
        super().__init__(dropout)
        self.scale = scale  # 1/sqrt(e) unless given

    def factor(self, q: Tensor) -> float:
        """The factor of the scores."""
        return float(q.shape[-1] ** -0.5) if self.scale is None else self.scale

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        scores = add_bias(q @ repeat_heads(k, q.shape[-3]).mT * self.factor(q), bias)
        return masked_softmax(scores, mask.dense(q.shape[-2], k.shape[-2], q.device), bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        dropping = self.training and self.dropout.p > 0
        if not dropping and bias is None and (plain_causal(mask, q, k) or not (mask.causal or mask.pairs is not None)):
            return self.fused(q, k, v, mask, bias)  # flash knows this mask by itself, or one row of it serves all
        slow = dropping and q.device.type == "cpu"  # there the fused kernel has no dropout and forms the matrix too
        return by_rows(self.explicit if slow else self.fused, q, k, v, mask, bias)

    def learning(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor) -> Tensor:
        """What PyTorch would do with a bias that learns, with half of its copies."""
        scores = (q * self.factor(q) @ repeat_heads(k, q.shape[-3]).mT).add_(bias)
        if allowed is not None:
            scores.masked_fill_(~allowed, -torch.inf)
        return masked_softmax(scores, None) @ repeat_heads(v, q.shape[-3])

    def fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        """PyTorch's fused kernel, which wants four axes and values as wide as keys."""
        causal = plain_causal(mask, q, k) and bias is None
        added = None if causal else mask.dense(q.shape[-2], k.shape[-2], q.device)
        if bias is not None:
            numbers = bias.dense(q.shape[-2], k.shape[-2], q.device).to(q.dtype)
            if learned(numbers, added):
                return self.learning(q, k, v, added, numbers)
            added = numbers if added is None else numbers.masked_fill(~added, -torch.inf)
        scale = self.factor(q)
        lead, width, wide = q.shape[:-3], v.shape[-1], max(q.shape[-1], v.shape[-1])
        q, k, v = (x if x.shape[-1] == wide else F.pad(x, (0, wide - x.shape[-1])) for x in (q, k, v))
        if len(lead) != 1:
            q, k, v = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, v))
            if added is not None and added.ndim > 3:
                added = added.expand(*lead, *added.shape[-3:]).reshape(-1, *added.shape[-3:])
        if added is not None and added.ndim in (1, 3):
            added = added.unsqueeze(0)  # with three axes PyTorch would leave the fused kernel and form q x k
        dropout = self.dropout.p if self.training else 0.0
        grouped = q.shape[-3] != k.shape[-3]
        y = F.scaled_dot_product_attention(q, k, v, added, dropout, causal, scale=scale, enable_gqa=grouped)
        return y.reshape(*lead, *y.shape[-3:])[..., :width]


class Explicit(nn.Module):
    """A kernel computed by its definition, weights(q, k) @ v: the weights are formed and pass a tap. A module, as
    kernels are, so that both can be hooked."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None, kernel: Kernel, tap: Tap
    ) -> Tensor:
        """(b, h, q, e), (b, g, k, e), (b, g, k, f) -> (b, h, q, f)"""
        found: Tensor = kernel.dropout(tap(kernel.weights(q, k, mask, bias)))
        return found @ repeat_heads(v, q.shape[-3])


def learned(bias: Tensor, allowed: Tensor | None) -> bool:
    """Whether a bias learns, for which the processor's fused kernel steps aside; and no row is without a key."""
    if not bias.requires_grad or bias.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return bool((bias > -torch.inf).all()) and (allowed is None or bool(allowed.any(-1).all()))


def plain_causal(mask: Mask, q: Tensor, k: Tensor) -> bool:
    """Whether the mask is plain causal, which the fused kernel supports without a mask tensor."""
    square = q.shape[-2] == k.shape[-2] and isinstance(mask.start, int) and mask.start == 0
    return mask.causal and square and mask.keys is None and mask.pairs is None


class MultiHeadAttention(Mixer):
    """Multi-head attention around any kernel: project to heads, attend, project back. With a context, cross-attention.

    ``project``, ``attend`` and ``merge`` can be called apart. ``biases`` names the projections that have one, of
    "qkvo"; ``shared`` the two that are one and the same. ``groups`` of heads may share their keys and values.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kernel: Kernel | None = None,
        context_dim: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        groups: int | None = None,
        biases: str = "qkvo",
        shared: Literal["", "qk", "kv"] = "",
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        groups, context_dim = groups or heads, context_dim or dim
        if head_dim is None and dim % heads:
            raise ValueError(f"the hidden size {dim} is not a multiple of {heads} heads; pass head_dim")
        if heads % groups:
            raise ValueError(
                f"the number of heads ({heads}) must be a multiple of the number of key-value groups ({groups})"
            )
        head_dim = head_dim or dim // heads
        value_dim = value_dim or head_dim
        if shared == "kv" and value_dim != head_dim:
            raise ValueError(
                f"keys and values can share one projection only if they have the same size, got {head_dim} "
                f"and {value_dim}"
            )
        if shared == "qk" and (groups != heads or context_dim != dim):
            raise ValueError(
                "queries and keys can share one projection only if they have the same sizes and numbers of heads"
            )
        self.heads, self.groups = heads, groups
        self.q = nn.Linear(dim, heads * head_dim, bias="q" in biases)
        self.k = None if shared == "qk" else nn.Linear(context_dim, groups * head_dim, bias="k" in biases)
        self.v = None if shared == "kv" else nn.Linear(context_dim, groups * value_dim, bias="v" in biases)
        self.out = nn.Linear(heads * value_dim, dim, bias="o" in biases)
        self.rotary = rotary
        self.kernel = kernel or Softmax()
        self.queries, self.keys, self.values = Tap(), Tap(), Tap()  # (b, h, q, e), (b, g, k, e), (b, g, k, f)
        self.weights = Tap()  # (b, h, q, k); only this one leaves the fast path
        self.explicit = Explicit()
        self.mixed = Tap()  # (b, h, q, f): what each head brings, before the last projection
        self.fused: nn.Linear | None = None  # q, k and v in one product, made by ``fuse``

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        if context is not None:
            return self.cross(x, context, mask, bias, cache)
        x = zero_padding(x, mask.real(x.shape[-2], x.device))
        q, k, v = self.project(x, x, x)
        if self.rotary is not None:
            positions = mask.positions(x.shape[-2], x.device)
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return self.merge(self.attend(q, k, v, mask, bias, None if cache is None else cache.slot(self)))

    def cross(self, x: Tensor, context: Tensor, mask: Mask, bias: Bias | None, cache: Cache | None) -> Tensor:
        """Cross-attention with a cache: the keys and values of the context are computed once per sequence."""
        if self.rotary is not None:
            raise ValueError(
                "rotary positions compare positions within one sequence, so they do not support "
                "cross-attention to a context"
            )
        slot = Slot(0) if cache is None else cache.context(self)
        if "k" not in slot:
            real = zero_padding(context, mask.keys)
            slot["k"], slot["v"] = self.project_context(real, real)
        slot.belongs(context)
        q, k, v = split_heads(self.q(x), self.heads), slot["k"], slot["v"]
        beams, left = divmod(len(q), max(len(k), 1))
        if left or bool(beams) != bool(len(k)):
            raise ValueError(
                f"the number of query rows ({len(q)}) must be a multiple of the number of contexts ({len(k)})"
            )
        if beams <= 1:
            return self.merge(self.attend(q, k, v, mask, bias))
        if bias is not None or mask.pairs is not None or mask.causal:
            raise ValueError(
                "beams that share a context support only Mask.keys, not a bias, Mask.pairs or a causal mask"
            )
        if self.weights.live:  # whoever looks wants a map for each beam
            keys = None if mask.keys is None else mask.keys.repeat_interleave(beams, 0)
            k, v = k.repeat_interleave(beams, 0), v.repeat_interleave(beams, 0)
            return self.merge(self.attend(q, k, v, Mask(keys=keys)))
        n = q.shape[-2]
        q = q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)  # (b*beams, h, n, e) -> (b, h, beams*n, e)
        y = self.attend(q, k, v, mask, None)
        return self.merge(y.unflatten(2, (beams, n)).transpose(1, 2).flatten(0, 1))

    def project(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, q, d), (b, k, d), (b, k, d) -> (b, h, q, e), (b, g, k, e), (b, g, k, f)"""
        if self.k is None and queries is keys and self.v is not None and (self.fused is None or self.training):
            q = split_heads(self.q(queries), self.heads)
            return q, q, split_heads(self.v(values), self.groups)
        if self.fused is None or self.training or queries is not keys or keys is not values:
            return split_heads(self.q(queries), self.heads), *self.project_context(keys, values)
        sizes = [x.out_features for x in (self.q, self.k, self.v) if x is not None]
        parts = self.fused(keys).split(sizes, -1)
        q, k, v = parts[0], parts[0 if self.k is None else 1], parts[-1]  # what is shared has no part of its own
        return split_heads(q, self.heads), split_heads(k, self.groups), split_heads(v, self.groups)

    def project_context(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(b, k, d), (b, k, d) -> (b, g, k, e), (b, g, k, f)"""
        k = (self.q if self.k is None else self.k)(keys)
        v = k if self.v is None else self.v(values)
        return split_heads(k, self.groups), split_heads(v, self.groups)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None, slot: Slot | None = None
    ) -> Tensor:
        """(b, h, q, e), (b, g, k, e), (b, g, k, f) -> (b, h, q, f); with a slot, k and v are those of new positions"""
        q, k, v = self.queries(q), self.keys(k), self.values(v)
        if not self.weights.live:
            y = self.kernel(q, k, v, mask, bias) if slot is None else self.kernel.step(slot, q, k, v, mask, bias)
        else:
            if slot is not None:
                k, v = self.remember(slot, q, k, v, mask, bias)
            y = self.explicit(q, k, v, mask, bias, self.kernel, self.weights)
        return self.mixed(y)

    def remember(
        self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None
    ) -> tuple[Tensor, Tensor]:
        """Append to the cache all keys and values so far, also for a kernel that keeps sums instead."""
        total = int(mask.start) + k.shape[-2]
        self.kernel.step(slot, q, k, v, mask, bias)
        if "k" in slot and slot["k"].shape[-2] == total:
            return slot["k"], slot["v"]
        keys, values = slot.append("heard k", k), slot.append("heard v", v)
        if keys.shape[-2] != total:
            raise ValueError(
                "this attention caches sums instead of keys: to record its weights, start listening at the first step"
            )
        return keys, values

    def merge(self, y: Tensor) -> Tensor:
        """(b, h, n, f) -> (b, n, d)"""
        return self.out(y.transpose(-3, -2).flatten(-2))

    @torch.no_grad()
    def for_inference(self) -> None:
        """Fuse the projections of q, k and v into one for inference: the same outputs, fewer and larger products.

        The three become views of the one, so that it takes no more memory.
        """
        parts = [x for x in (self.q, self.k, self.v) if isinstance(x, nn.Linear)]
        if len(parts) < 2 or not all(isinstance(x, nn.Linear) for x in parts):
            return
        if len({x.in_features for x in parts}) > 1:
            return
        some = any(x.bias is not None for x in parts)
        with torch.device("meta"):
            self.fused = nn.Linear(parts[0].in_features, sum(x.out_features for x in parts), bias=some)
        self.fused.weight = nn.Parameter(torch.cat([x.weight.data for x in parts]), requires_grad=False)
        if some:
            biases = [x.weight.new_zeros(x.out_features) if x.bias is None else x.bias.data for x in parts]
            self.fused.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
        for part, weight in zip(parts, self.fused.weight.split([x.out_features for x in parts]), strict=True):
            part.weight = nn.Parameter(weight, requires_grad=False)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, n, h*e) -> (b, h, n, e)"""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(-3, -2)


def zero_padding(x: Tensor, real: Tensor | None) -> Tensor:
    """Zero the values at padding, so that NaN there cannot reach outputs and gradients.

    (b, n, d), (b, n) -> (b, n, d)
    """
    return x if real is None else x.masked_fill(~real[..., None], 0.0)
