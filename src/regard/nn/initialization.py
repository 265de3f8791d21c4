"""How random weights start."""

import torch
from torch import Tensor, nn

CUT = 2.0  # deviations; what is drawn beyond is drawn again
NARROWED = 0.8796256610342398  # the deviation of a normal distribution that was cut there


def init_deviation(dim: int) -> float:
    """0.02, as GPT-2 and BERT were published at width 768 and above; wider in a narrower net.

    Scores grow with dim * deviation^2: at width 64, 0.02 leaves all attention uniform for thousands of steps.
    """
    return float(0.02 * max(768 / dim, 1.0) ** 0.5)


def truncated_normal(x: Tensor, std: float = 0.02) -> Tensor:
    """Fill a tensor from a truncated normal distribution, which has the standard deviation ``std`` after truncation.

    ``trunc_normal_(x, std=0.02)`` of PyTorch cuts at -2 and 2 as they are, a hundred deviations away: at nothing.
    """
    wide = std / NARROWED
    with torch.no_grad():
        return nn.init.trunc_normal_(x, std=wide, a=-CUT * wide, b=CUT * wide)


def start_truncated(net: nn.Module, std: float) -> None:
    """Every linear layer of a net: truncated normal weights, zero biases."""
    for module in net.modules():
        if isinstance(module, nn.Linear):
            truncated_normal(module.weight, std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
