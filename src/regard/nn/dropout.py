"""Dropout that is cheap on a processor: sixteen random bits for each number instead of a float.

Dropout (Srivastava et al., 2014), https://jmlr.org/papers/v15/srivastava14a.html
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 1 << 16  # the share that is dropped is a whole number of these


class Dropout(nn.Module):
    """Dropout: in training, zero each element with probability p and scale the others by 1 / (1 - p).

    The share is p to 16 bits, and the growth is that of this very share: nothing is biased by the rounding.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability must be from 0 to 1, got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return dropped(x, self.p) if self.training and self.p > 0 else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


def dropped(x: Tensor, p: float) -> Tensor:
    """Drawn from the processor's own generator; other devices and compiled graphs have a fast dropout already."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or p == 1:
        return F.dropout(x, p)
    share = min(round(p * STEPS), STEPS - 1)
    # One draw of 64 bits serves four numbers. A mask of the type of x is far faster to multiply with than a bool one.
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    kept = torch.ge(bits, share - STEPS // 2, out=torch.empty_like(x, requires_grad=False))
    growth = STEPS / (STEPS - share)
    if x.dtype.itemsize < 4:
        return (x * kept) * growth  # in half precision the growth itself would be rounded, always the same way
    return x * kept.mul_(growth)
