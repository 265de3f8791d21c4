"""What mixers share that see a sequence as a whole: what they cannot honour, and rows whose padding is taken out.

Shapes: b batch (any leading axes), n positions, d width.
"""

import torch
from torch import Tensor

from ..cache import Cache
from ..mask import Bias, Mask
from ..site import DropoutError, Site


def refuse_site(name: str, site: Site, *, dropout: bool = True) -> None:
    """Refuse a site that no such mixer supports; ``dropout``: refuse attention dropout as well."""
    if site.causal:
        raise ValueError(f"{name} mixes the full sequence at once, so it cannot be causal")
    if site.cross:
        raise ValueError(
            f"{name} mixes the positions of one sequence, so it does not support cross-attention to a context"
        )
    if site.biased:
        raise ValueError(f"{name} has no scores, so it cannot take a bias")
    if dropout and site.dropout:
        raise DropoutError(f"{name} has no attention weights, so it does not support attention dropout")


def real_positions(
    name: str, x: Tensor, context: Tensor | None, mask: Mask, bias: Bias | None, cache: Cache | None
) -> Tensor | None:
    """Which positions are not padding, (b, n), or None when all are real; every other argument is refused."""
    if context is not None:
        raise ValueError(
            f"{name} mixes the positions of one sequence, so it does not support cross-attention to a context"
        )
    if mask.causal:
        raise ValueError(f"{name} mixes the full sequence at once, so it cannot be causal")
    if cache is not None:
        raise ValueError(f"{name} mixes the full sequence at once, so it cannot decode with a cache")
    if bias is not None:
        raise ValueError(f"{name} has no scores, so it cannot take a bias")
    real = mask.structured(name).keys
    if real is not None and real.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} got a padding mask (keys) of {real.shape[-1]} positions, expected {x.shape[-2]}")
    return real


def move_to_front(x: Tensor, real: Tensor) -> Tensor:
    """The real positions of each row first, in their order, and zeros behind them.  (b, n, d), (b, n) -> (b, n, d)"""
    order = (~real).to(torch.uint8).argsort(dim=-1, stable=True)
    behind = torch.arange(x.shape[-2], device=x.device) >= real.sum(-1, keepdim=True)
    return x.take_along_dim(order[..., None], -2).masked_fill(behind[..., None], 0.0)


def undo_move_to_front(y: Tensor, real: Tensor) -> Tensor:
    """The inverse of ``move_to_front``, with zeros at padding. (b, n, d), (b, n) -> (b, n, d)"""
    position = (real.cumsum(-1) - 1).clamp(min=0)
    return y.take_along_dim(position[..., None], -2).masked_fill(~real[..., None], 0.0)
