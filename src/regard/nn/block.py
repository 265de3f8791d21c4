"""The transformer block."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from .attention import Mixer
from .cache import Cache
from .mask import ALL, Bias, Mask
from .recomputation import recompute_forward
from .residual import Residual
from .tap import Tap

T = TypeVar("T")


class AttentionBlock(nn.Module):
    """Base class of blocks: self-attention and optional cross-attention, each with a residual connection.

    Shapes: b batch, n positions, m positions of the context, d width.
    """

    def __init__(self, mixer: Mixer, residual: Callable[[], Residual], cross: Mixer | None = None) -> None:
        super().__init__()
        self.mixer, self.mixer_residual = mixer, residual()
        self.cross, self.cross_residual = cross, None if cross is None else residual()
        self.replayed = False  # compute its activations again in the backward pass instead of keeping them

    def attend(
        self, x: Tensor, context: Tensor | None, mask: Mask, context_mask: Mask, bias: Bias | None, cache: Cache | None
    ) -> Tensor:
        """(b, n, d), (b, m, d) -> (b, n, d)"""
        if context is None and self.cross is not None:
            raise ValueError("this block has cross-attention, so it needs a context to attend to")
        if context is not None and self.cross is None:
            raise ValueError("this block has no cross-attention, so it cannot attend to a context")
        x = self.mixer_residual(x, lambda y: self.mixer(y, mask=mask, bias=bias, cache=cache))
        if self.cross is not None and self.cross_residual is not None:
            cross = self.cross
            x = self.cross_residual(x, lambda y: cross(y, context, mask=context_mask, cache=cache))
        return x

    def perform(
        self, run: Callable[[Tensor, Tensor | None], T], x: Tensor, context: Tensor | None, cache: Cache | None
    ) -> T:
        """All that a block does, and if it shall be replayed, only what it was given is kept."""
        if self.replayed and self.training and cache is None and torch.is_grad_enabled():
            return recompute_forward(run, x, context)
        return run(x, context)


class Block(AttentionBlock):
    """Transformer block: self-attention, optional cross-attention, feed-forward."""

    def __init__(
        self, mixer: Mixer, ffn: nn.Module, residual: Callable[[], Residual], *, cross: Mixer | None = None
    ) -> None:
        super().__init__(mixer, residual, cross)
        self.ffn, self.ffn_residual = ffn, residual()
        self.stream = Tap()

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        context_mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(b, n, d), (b, m, d) -> (b, n, d)"""

        def run(x: Tensor, context: Tensor | None) -> Tensor:
            x = self.attend(x, context, mask, context_mask, bias, cache)
            return self.stream(self.ffn_residual(x, self.ffn))

        return self.perform(run, x, context, cache)


def replay_blocks(net: nn.Module) -> int:
    """Enable activation recomputation (gradient checkpointing) in every block: less memory, more time. -> number of
    blocks"""
    blocks = [module for module in net.modules() if isinstance(module, AttentionBlock)]
    for block in blocks:
        block.replayed = True
    return len(blocks)
