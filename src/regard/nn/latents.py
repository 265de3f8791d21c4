"""A small array that looks at a large one, again and again: the cost grows with the inputs, not with their square.

Perceiver (Jaegle et al., 2021), https://arxiv.org/abs/2103.03206, section 3
    z <- z + attention(norm(z), norm(x)), an MLP, then a stack of self-attention among the z; and again
The first look has weights of its own, all later ones share theirs, and so do all stacks.

Shapes: b batch, n inputs, c width of an input, m latents, d width of a latent.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention, Softmax
from .block import Block
from .config import not_above_zero, not_divided, not_one_of, not_positive, not_shares
from .feedforward import ACTIVATIONS, FeedForward, activation
from .mask import Mask
from .mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from .residual import Branch, PreNorm
from .site import Site


@dataclass(frozen=True, kw_only=True)
class LatentSizes:
    """The sizes of latent blocks, shared by the configs of all models with latents."""

    latents: int = 512
    dim: int = 1024
    depth: int = 6  # layers of a stack
    repeats: int = 8  # of the stack, which shares its weights
    looks: int = 1  # at the inputs; the stacks after the last have none before them
    heads: int = 8
    cross_heads: int = 1
    key_dim: int | None = None  # of all heads together; as wide as what is looked at unless given
    value_dim: int | None = None  # as the keys unless given
    hidden: int = 1024
    cross_hidden: int = 1024
    dropout: float = 0.0  # of attention
    eps: float = 1e-5
    activation: str = "gelu"
    attention: Choice = "softmax"

    def wrong(self) -> list[str]:
        typed = isinstance(self.looks, int) and isinstance(self.repeats, int)
        many = f"looks = {self.looks} is larger than repeats = {self.repeats}"
        return [
            *not_positive(self, "latents", "dim", "depth", "repeats", "looks", "heads", "cross_heads"),
            *not_positive(self, "key_dim", "value_dim", "hidden", "cross_hidden"),
            *not_above_zero(self, "eps"),
            *not_shares(self, "dropout"),
            *not_divided(self, "dim", "heads"),
            *not_one_of(ACTIVATIONS, self, "activation"),
            *unknown_choices(self, "attention"),
            *([many] if typed and self.looks > self.repeats else []),
        ]


class LatentBlock(nn.Module):
    """Cross-attention of queries to a context, then a feed-forward. Without ``skip`` there is no residual around the
    attention."""

    def __init__(
        self,
        dim: int,
        context_dim: int,
        *,
        heads: int,
        hidden: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        eps: float = 1e-5,
        act: str = "gelu",
        skip: bool = True,
    ) -> None:
        super().__init__()
        key_dim = key_dim or context_dim
        self.norm, self.context_norm = nn.LayerNorm(dim, eps), nn.LayerNorm(context_dim, eps)
        self.look = MultiHeadAttention(
            dim,
            heads,
            kernel=Softmax(dropout),
            context_dim=context_dim,
            head_dim=shared(key_dim, heads),
            value_dim=shared(value_dim or key_dim, heads),
        )
        self.skip = skip
        self.ffn_norm, self.ffn = nn.LayerNorm(dim, eps), FeedForward(dim, hidden, activation(act))

    def forward(self, x: Tensor, context: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, m, d), (b, n, c), (b, n) -> (b, m, d); keys is False at padding of the context"""
        seen = self.look(self.norm(x), self.context_norm(context), mask=Mask(keys=keys))
        x = x + seen if self.skip else seen
        return x + self.ffn(self.ffn_norm(x))


def shared(width: int, heads: int) -> int:
    """of one head"""
    if width % heads:
        raise ValueError(f"the size of keys and values must be a multiple of {heads} heads, got {width}")
    return width // heads


class Latents(nn.Module):
    def __init__(self, sizes: LatentSizes, context_dim: int) -> None:
        super().__init__()
        self.repeats, self.looks = sizes.repeats, sizes.looks
        self.start = nn.Parameter(torch.empty(sizes.latents, sizes.dim))
        nn.init.trunc_normal_(self.start, std=0.02)
        self.cross = crossing(sizes, context_dim)
        self.again = crossing(sizes, context_dim) if sizes.looks > 1 else None
        self.blocks = nn.ModuleList(stacked(sizes, choice) for choice in layer_choices(sizes.attention, sizes.depth))

    def forward(self, inputs: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n, c), (b, n) -> (b, m, d)"""
        x = self.start.expand(len(inputs), -1, -1)
        for i in range(self.repeats):
            if i < self.looks:
                look = self.cross if i == 0 or self.again is None else self.again
                x = look(x, inputs, keys)
            for block in self.blocks:
                x = block(x)
        return x


def crossing(sizes: LatentSizes, context_dim: int) -> LatentBlock:
    return LatentBlock(
        sizes.dim,
        context_dim,
        heads=sizes.cross_heads,
        hidden=sizes.cross_hidden,
        key_dim=sizes.key_dim,
        value_dim=sizes.value_dim,
        dropout=sizes.dropout,
        eps=sizes.eps,
        act=sizes.activation,
    )


def stacked(sizes: LatentSizes, choice: Choice) -> Block:
    site = Site(
        dim=sizes.dim,
        heads=sizes.heads,
        length=sizes.latents,
        dropout=sizes.dropout,
        head_dim=shared(sizes.key_dim or sizes.dim, sizes.heads),
        value_dim=shared(sizes.value_dim or sizes.key_dim or sizes.dim, sizes.heads),
    )
    return Block(
        build_mixer(choice, site),
        FeedForward(sizes.dim, sizes.hidden, activation(sizes.activation)),
        lambda: PreNorm(nn.LayerNorm(sizes.dim, sizes.eps), Branch(sizes.dim)),
    )


def fourier_features(places: Tensor, bands: int, resolution: int) -> Tensor:
    """Section 3.2: each coordinate, from -1 to 1, and sin and cos of pi f of it, f from 1 to the Nyquist frequency in
    equal steps.  (..., a) -> (..., a + 2 a bands), a axes

    Differs from ``sinusoid``: equal steps, not powers, and made to be set beside the inputs, not added to them.
    """
    waves = torch.linspace(1.0, resolution / 2, bands, device=places.device, dtype=places.dtype)
    angles = math.pi * (places[..., None] * waves).flatten(-2)
    return torch.cat((places, angles.sin(), angles.cos()), -1)


def spread_over(grid: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Coordinates of the points of a grid, each axis from -1 to 1, row by row. -> (points, axes)"""
    axes = [torch.linspace(-1.0, 1.0, size, device=device, dtype=dtype) for size in grid]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
