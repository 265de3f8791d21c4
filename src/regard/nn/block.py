"""The transformer block."""

from collections.abc import Callable

from torch import Tensor, nn

from .attention import Mixer
from .cache import Cache
from .mask import ALL, Bias, Mask
from .residual import Residual
from .tap import Tap


class Block(nn.Module):
    """Mix positions, optionally look at a context, transform each position; each step is a residual.

    Shapes: b batch, n positions, m positions of the context, d width.
    """

    def __init__(
        self, mixer: Mixer, ffn: nn.Module, residual: Callable[[], Residual], *, cross: Mixer | None = None
    ) -> None:
        super().__init__()
        self.mixer, self.mixer_residual = mixer, residual()
        self.cross, self.cross_residual = cross, None if cross is None else residual()
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
        x = self.mixer_residual(x, lambda y: self.mixer(y, mask=mask, bias=bias, cache=cache))
        if self.cross is not None and self.cross_residual is not None:
            if context is None:
                raise ValueError("this block has cross-attention, so it needs a context to look at")
            cross = self.cross
            x = self.cross_residual(x, lambda y: cross(y, context, mask=context_mask, cache=cache))
        elif context is not None:
            raise ValueError("this block has no cross-attention, so it cannot look at a context")
        return self.stream(self.ffn_residual(x, self.ffn))
