"""Attention within the windows of a grid, whose borders other layers shift.

Swin Transformer (Liu et al., 2021), https://arxiv.org/abs/2103.14030, section 3.2
Every position looks at those of its own window of M x M, so the cost grows with the pixels and not with their square;
shifted windows, by half of one, join what lies on both sides of a border. Rolled around its edge the grid has as many
windows as before, and a mask keeps apart in them what only the roll has brought together.

Differs from the authors' code: a grid that has no whole number of windows is filled up there with zeros, which are
looked at; here nobody looks at filling.

Shapes: b batch, r rows, c columns, d width; w windows, n positions of a window, h heads.
"""

from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Mixer
from ..axis import Axis, WindowCut
from ..cache import Cache
from ..mask import ALL, Bias, Mask, TensorBias
from ..pyramid import halved_side


class Offsets(Protocol):
    """The position bias of a window of this height and width. -> (h, n, n)"""

    def __call__(self, height: int, width: int) -> Tensor: ...


class WindowAttention(Mixer):
    """Attention within the windows of a grid, for any mechanism that supports a mask and a bias: (b, r, c, d) -> (b, r,
    c, d)"""

    def __init__(self, attention: Mixer, offsets: nn.Module, window: int, shift: int) -> None:
        super().__init__()
        self.attention, self.offsets = attention, offsets
        self.window, self.shift = window, shift

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        if context is not None or mask is not ALL or bias is not None or cache is not None:
            raise ValueError(
                "window attention runs over one complete grid: it does not support a context, mask, bias or cache"
            )
        cut = self.cut(x.shape[1], x.shape[2])
        pairs = window_neighbours(cut, x.device)
        if pairs is not None:
            mask = Mask(pairs=pairs.repeat(len(x), 1, 1)[:, None])
        offsets: Offsets = self.offsets
        y = self.attention(cut_windows(x, cut), mask=mask, bias=TensorBias(offsets(*cut.window)))
        return put_back(y, cut)

    def cut(self, rows: int, columns: int) -> WindowCut:
        """How the grid is divided. A grid no larger than a window is one window without a shift."""
        down, right = (self.shift if side > self.window else 0 for side in (rows, columns))
        return WindowCut((rows, columns), (min(self.window, rows), min(self.window, columns)), (down, right))


def cut_windows(x: Tensor, cut: WindowCut) -> Tensor:
    """(b, r, c, d) -> (b*w, n, d)"""
    below, beside = (side - given for side, given in zip(cut.sides, cut.grid, strict=True))
    if below or beside:
        x = F.pad(x, (0, 0, 0, beside, 0, below))
    if any(cut.shift):
        x = x.roll((-cut.shift[0], -cut.shift[1]), (1, 2))
    x = x.unflatten(2, (cut.windows[1], cut.window[1])).unflatten(1, (cut.windows[0], cut.window[0]))
    return x.transpose(2, 3).flatten(3, 4).flatten(0, 2)


def put_back(y: Tensor, cut: WindowCut) -> Tensor:
    """(b*w, n, d) -> (b, r, c, d)"""
    y = y.unflatten(1, cut.window).unflatten(0, (-1, *cut.windows))
    y = y.transpose(2, 3).flatten(3, 4).flatten(1, 2)
    if any(cut.shift):
        y = y.roll(cut.shift, (1, 2))
    return y if cut.sides == cut.grid else y[:, : cut.grid[0], : cut.grid[1]]


@lru_cache(maxsize=64)
def window_neighbours(cut: WindowCut, device: torch.device) -> Tensor | None:
    """The mask of shifted windows: which positions of a window are neighbours in the grid, not joined by the shift, nor
    padding.

    -> (w, n, n), or None where all are
    """
    if not any(cut.shift) and cut.sides == cut.grid:
        return None
    with torch.inference_mode(False):  # remembered tensors must serve training too
        rows, columns = (torch.arange(side, device="cpu") for side in cut.sides)
        # before the roll: those of the first rows come to stand below the last ones
        over = 2 * (rows < cut.shift[0])[:, None] + (columns < cut.shift[1]).long()
        real = (rows < cut.grid[0])[:, None] & (columns < cut.grid[1])
        regions = torch.where(real, over, -1)
        whole = WindowCut(cut.sides, cut.window, cut.shift)
        labels = cut_windows(regions[None, :, :, None], whole)[..., 0]
        return (labels[:, :, None] == labels[:, None, :]).to(device)


def window_axes(net: nn.Module, images: Tensor, patch: int) -> dict[str, Axis]:
    """The axes of all layers with windows, by their names: stages.0.blocks.1.mixer.attention ..."""
    found, rows, columns = {}, *(-(-side // patch) for side in images.shape[-2:])
    for name, module in net.named_modules():
        if isinstance(module, WindowAttention):
            stage = int(name.split(".")[1])
            cut = module.cut(halved_side(rows, stage), halved_side(columns, stage))
            size = cut.window[0] * cut.window[1]
            found[f"{name}.attention"] = Axis("image", size, grid=cut.window, cut=cut)
    return found
