"""Activations that are computed again in the backward pass instead of being kept."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .tap import heard_by, hearing, repeated


def recompute(f: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
    """``f(*inputs)``, of which only the inputs are kept; random states are replayed.

    Whoever listened during the forward pass is taken along, so that the second run takes the same path, also after
    the capture has closed.
    """
    if torch.compiler.is_compiling():  # a compiled graph has no taps, and no contexts can be handed to it
        return checkpoint(f, *inputs, use_reentrant=False)
    now = hearing()

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), heard_by(repeated(now))

    return checkpoint(f, *inputs, use_reentrant=False, context_fn=contexts)
