"""What a block does to each position by itself."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import closest_name
from .dropout import Dropout

Activation = Callable[[Tensor], Tensor]


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of GELU, as in GPT-2 and FNet; it differs from the exact GELU by up to 5e-4."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """The logistic approximation of GELU, as in CLIP; it differs from the exact GELU by up to 2e-2."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "tanh": F.tanh,
}


IN_PLACE: dict[Activation, Activation] = {F.relu: F.relu_, F.gelu: torch.ops.aten.gelu_}


def activation(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise ValueError(
            f"unknown activation {name!r}{closest_name(name, ACTIVATIONS)}; valid names are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """W2 act(W1 x): the feed-forward of Vaswani et al. (2017), section 3.3, with any activation."""

    def __init__(
        self, dim: int, hidden: int, act: Activation = F.gelu, *, dropout: float = 0.0, biases: bool = True
    ) -> None:
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=biases)
        self.down = nn.Linear(hidden, dim, bias=biases)
        self.act, self.dropout = act, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)"""
        return self.down(self.dropout(self.act(self.up(x))))

    def for_inference(self) -> None:
        """For inference: the activation runs in place, which saves memory of the size of the hidden layer and its
        allocation."""
        self.act = IN_PLACE.get(self.act, self.act)


class Gated(nn.Module):
    """GLU variants (Shazeer, 2020), https://arxiv.org/abs/2002.05202: W2 (act(G x) * W1 x); SwiGLU, GEGLU ..."""

    def __init__(
        self, dim: int, hidden: int, act: Activation = F.silu, *, dropout: float = 0.0, biases: bool = False
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=biases)
        self.up = nn.Linear(dim, hidden, bias=biases)
        self.down = nn.Linear(hidden, dim, bias=biases)
        self.act, self.dropout = act, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d)"""
        return self.down(self.dropout(self.act(self.gate(x)) * self.up(x)))


class Maxout(nn.Module):
    """Goodfellow et al. (2013), https://arxiv.org/abs/1302.4389: the largest of several linear maps."""

    def __init__(self, dim: int, out: int, pieces: int = 2) -> None:
        super().__init__()
        self.pieces = pieces
        self.linear = nn.Linear(dim, out * pieces)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., out); neighbours compete"""
        return self.linear(x).unflatten(-1, (-1, self.pieces)).amax(-1)
