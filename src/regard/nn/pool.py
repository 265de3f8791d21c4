"""One vector for a text of many."""

import torch
from torch import Tensor


def pool_first(x: Tensor, keys: Tensor | None) -> Tensor:
    """The first real token of each row, whichever side the padding is on.  (b, n, d) -> (b, d)"""
    if not len(x):
        return x.sum(1)  # no rows; there may be no tokens either
    if not x.shape[1]:
        raise ValueError(
            f"pooling reads the first token of each row: got {len(x)} rows of 0 tokens, expected at least 1 token"
        )
    return x[:, 0] if keys is None else x[torch.arange(len(x), device=x.device), keys.int().argmax(1)]


def pool_mean(x: Tensor, keys: Tensor | None) -> Tensor:
    """The mean of the real tokens: a sentence's embedding.  (b, n, d) -> (b, d)"""
    if keys is None:
        return x.mean(1) if x.shape[1] else x.sum(1)  # of no tokens it is zero, as for a row of padding
    real = keys[..., None].to(x.dtype)
    return x.masked_fill(~keys[..., None], 0.0).sum(1) / real.sum(1).clamp(min=1)
