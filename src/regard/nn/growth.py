"""Grids of positions that grow from stage to stage, and the norm without weights of generators.

PixelShuffle: Shi et al. (2016), https://arxiv.org/abs/1609.05158
    y[c, 2r + i, 2s + j] = x[4c + 2i + j, r, s]
Channels become pixels: each 2 x 2 block of pixels comes from one position, of which every four consecutive channels
stand for one channel of the block.

Shapes: b batch, r rows, s columns, d width.
"""

from torch import Tensor, nn


def shuffle_pixels(x: Tensor) -> Tensor:
    """A grid of twice the sides, a quarter of the width.  (b, r, s, 4d) -> (b, 2r, 2s, d)"""
    x = x.unflatten(-1, (x.shape[-1] // 4, 2, 2))
    return x.permute(0, 1, 4, 2, 5, 3).flatten(3, 4).flatten(1, 2)


class PixelNorm(nn.Module):
    """Each position by the root of its mean square over channels, without weights (Karras et al., 2018),
    https://arxiv.org/abs/1710.10196, section 4.2:  x / sqrt(mean_c x^2 + eps)"""

    def __init__(self, eps: float, axis: int = -1) -> None:
        super().__init__()
        self.eps, self.axis = eps, axis

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape; ``axis`` is that of the channels."""
        return x * (x.square().mean(self.axis, keepdim=True) + self.eps).rsqrt()
