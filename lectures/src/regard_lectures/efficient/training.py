"""The training loop of this section's nets, which learn for minutes: enough to tell attentions apart, no more."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

WARM, CLIP = 50, 1.0
LOOKS = 10  # at what is held out, besides the one before the first step


def marks(steps: int) -> list[int]:
    """The steps after which a net is looked at, from none to all."""
    return sorted({round(i * steps / LOOKS) for i in range(LOOKS + 1)})


def learn(
    net: nn.Module, loss: Callable[[], Tensor], look: Callable[[], float], *, steps: int, rate: float
) -> list[float]:
    """Adam, whose rate goes up along a line and down along another; ``loss`` draws its own batch.  -> what each look
    has seen"""
    optimizer = torch.optim.Adam(net.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share(step, steps))
    seen, when = [seen_by(net, look)], marks(steps)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        if step in when:
            seen.append(seen_by(net, look))
    return seen


def share(step: int, steps: int) -> float:
    """How much of the full rate."""
    warm = min(WARM, steps // 4 + 1)
    return min((step + 1) / warm, (steps - step) / max(steps - warm, 1))


def seen_by(net: nn.Module, look: Callable[[], float]) -> float:
    """A look at a net that does not learn meanwhile."""
    net.eval()
    with torch.no_grad():
        seen = look()
    net.train()
    return float(f"{seen:.5g}")
