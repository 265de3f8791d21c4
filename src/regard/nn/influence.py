"""Looking at what has no weights: how much each output moves when an input does.

    influence[i, j] = the Frobenius norm of dy_i / dx_j

Shapes: b batch, n positions, d width.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from .tap import Tap, use_listeners

EXACT = 1 << 12  # directions of all outputs that are pulled back one by one; beyond, some random ones for each position
PROBES = 64  # that many: the norm is then right to about 9 % or better
AT_ONCE = 1 << 22  # numbers of gradients in memory

Mix = Callable[[Tensor, Tensor | None], Tensor]


def compute_with_influence(tap: Tap, mix: Mix, x: Tensor, real: Tensor | None) -> Tensor:
    """Compute ``mix`` of x; if the tap has a listener, a second run computes the influence of every input on every
    output."""
    record_influence(tap, mix, x, real)
    return mix(x, real)


def record_influence(tap: Tap, mix: Mix, x: Tensor, real: Tensor | None) -> None:
    if tap.live:
        told = jacobian_norms(mix, x, real)
        if tap(told) is not told:
            raise ValueError("an influence cannot be replaced: it is only reported, and no computation uses it")


def jacobian_norms(mix: Mix, x: Tensor, real: Tensor | None) -> Tensor:
    """Norms of dy_i/dx_j, (b, n, d) -> (b, 1, n, n), as the map of one head; rows of a batch are independent"""
    with torch.inference_mode(False), torch.enable_grad(), use_listeners({}):
        x = x.detach().clone().requires_grad_()
        real = None if real is None else real.clone()
        y = mix(x, real)
        found = x.new_zeros(len(x), y.shape[-2], x.shape[-2])
        if x.numel():
            for i in range(y.shape[-2]):
                found[:, i] = norms(x, y, i)
    return found[:, None]


def norms(x: Tensor, y: Tensor, i: int) -> Tensor:
    """(b, n, d), (b, m, d) -> (b, n): of dy_i by each position of x"""
    size = y.shape[-1]
    if size * y.shape[-2] <= EXACT:
        ways = torch.eye(size, dtype=y.dtype, device=y.device)
    else:
        draw = torch.Generator().manual_seed(i)
        ways = (torch.randn(PROBES, size, generator=draw) / PROBES**0.5).to(y)
    total = x.new_zeros(x.shape[:-1])
    for some in ways.split(max(AT_ONCE // x.numel(), 1)):
        toward = y.new_zeros(len(some), *y.shape)
        toward[:, :, i] = some[:, None]
        (slopes,) = torch.autograd.grad(y, x, toward, retain_graph=True, is_grads_batched=True)
        total += slopes.square().sum((0, -1))
    return total.sqrt().detach()


def __getattr__(name: str) -> object:
    """The old name of a documented function, with a warning; ``regard.deprecation`` is no part of nn."""
    if name != "tell":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = f"{__name__}.{compute_with_influence.__name__}"
    warnings.warn(
        f"{__name__}.tell has been renamed to {new}; the old name will be removed after version 0.2",
        DeprecationWarning,
        stacklevel=2,
    )
    return compute_with_influence
