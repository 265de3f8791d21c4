"""A place in a model that wants an attention, and what it asks for."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from .attention import Kernel, MultiHeadAttention
from .positions import Rotary


class DropoutError(ValueError):
    """Attention dropout, requested of a mechanism without attention weights."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A site: a place in a model for which a mechanism is built. A mechanism refuses a site that it does not
    support."""

    dim: int
    heads: int
    length: int | None = None  # the longest input, where the model knows one
    causal: bool = False
    cross: bool = False
    biased: bool = False  # something is added to the scores
    dropout: float = 0.0
    context_dim: int | None = None
    head_dim: int | None = None
    value_dim: int | None = None  # of a head; as the keys unless given
    groups: int | None = None
    biases: str = "qkvo"
    rotary: Rotary | None = None
    common: dict[str, nn.Module] | None = None  # what the layers of a model may share, where it lets them

    @property
    def width(self) -> int:
        """Feature size of one head."""
        return self.head_dim or self.dim // self.heads

    def attention(self, kernel: Kernel, *, shared: Literal["", "qk", "kv"] = "") -> MultiHeadAttention:
        return MultiHeadAttention(
            self.dim,
            self.heads,
            kernel=kernel,
            context_dim=self.context_dim,
            head_dim=self.head_dim,
            value_dim=self.value_dim,
            groups=self.groups,
            biases=self.biases,
            shared=shared,
            rotary=self.rotary,
        )
