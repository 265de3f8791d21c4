"""Where a token stands: added to its embedding, turned into its queries and keys, or added to the scores.

Nothing here keeps a buffer: a table is a function of its sizes, made once and remembered, so a model can be built
without memory and filled from a file.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .initialization import truncated_normal
from .mask import ALL, Mask, add_head_axis

Layout = Literal["interleaved", "halves"]


def sinusoid(positions: Tensor, dim: int, layout: Layout = "interleaved", base: float = 10000.0) -> Tensor:
    """Vaswani et al. (2017), section 3.5: sin and cos of p / base^(2i/d).  (..., n) -> (..., n, d)

    The paper interleaves them; "halves" puts all sines first (tensor2tensor, Marian). An odd width ends with a sine.
    """
    waves = torch.arange((dim + 1) // 2, device=positions.device, dtype=torch.float64)
    # In float64: at position 1000, float32 would be off by 1e-4.
    angle = positions[..., None].double() * torch.exp(waves * (-2 * math.log(base) / dim))
    sin, cos = angle.sin().float(), angle.cos().float()
    if layout == "halves":
        return torch.cat((sin, cos), -1)[..., :dim]
    return torch.stack((sin, cos), -1).flatten(-2)[..., :dim]


class Learned(nn.Module):
    """Learned position embeddings; a position out of range raises a ValueError."""

    def __init__(self, length: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, dim))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, positions: Tensor) -> Tensor:
        """(..., n) -> (..., n, d)"""
        if positions.numel() and not torch.compiler.is_compiling() and not positions.is_meta:
            last = int(positions.max())
            if last >= len(self.weight):
                raise ValueError(
                    f"position {last} is out of range for a model with {len(self.weight)} positions; shorten the input"
                )
        return F.embedding(positions, self.weight)


class Axial(nn.Module):
    """Axial positions (Kitaev et al., 2020), https://arxiv.org/abs/2001.04451, appendix D: a text is a grid, and its
    row and its column have a vector each, one beside the other. Far fewer numbers than one vector for each position.
    """

    def __init__(self, rows: int, columns: int, row_dim: int, dim: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(rows, row_dim))
        self.columns = nn.Parameter(torch.empty(columns, dim - row_dim))
        for table in (self.rows, self.columns):
            nn.init.normal_(table, std=0.02)

    def forward(self, positions: Tensor) -> Tensor:
        """(..., n) -> (..., n, d)"""
        rows, columns = len(self.rows), len(self.columns)
        if positions.numel() and not torch.compiler.is_compiling() and not positions.is_meta:
            last = int(positions.max())
            if last >= rows * columns:
                raise ValueError(
                    f"position {last} is out of range for a model with {rows * columns} positions; shorten the input"
                )
        there = F.embedding(positions // columns, self.rows), F.embedding(positions % columns, self.columns)
        return torch.cat(there, -1)


class Rotary(nn.Module):
    """RoFormer (Su et al., 2021), https://arxiv.org/abs/2104.09864: turn each pair of a head's features by an angle
    that grows with the position, so that q.k depends on the distance alone.

    "interleaved" pairs neighbours as the paper does; "halves" pairs i with i + d/2 (Llama as others publish it).
    ``turned`` is how many features of a head take part; the rest stay as they are.
    """

    def __init__(self, turned: int, *, base: float = 10000.0, layout: Layout = "interleaved") -> None:
        super().__init__()
        if turned % 2:
            raise ValueError(f"rotary positions rotate pairs of features, so their number must be even, got {turned}")
        self.turned, self.base, self.layout = turned, base, layout

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """(..., h, n, e), (n,) or (..., n) -> (..., h, n, e)"""
        precise = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(0, self.turned, 2, device=x.device, dtype=precise)
        angle = add_head_axis(positions[..., None].to(precise) * self.base ** (-pairs / self.turned))
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        turned, rest = x[..., : self.turned], x[..., self.turned :]
        if self.layout == "halves":
            a, b = turned.chunk(2, -1)
            both = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        else:
            a, b = turned[..., ::2], turned[..., 1::2]
            both = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        return torch.cat((both, rest), -1) if rest.shape[-1] else both


@dataclass(frozen=True, eq=False)
class ALiBi:
    """Press et al. (2022), https://arxiv.org/abs/2108.12409: each head loses a fixed slope per step of distance.

    A bias, not a module: it has nothing to learn. The mask tells where queries and keys stand.
    """

    heads: int
    mask: Mask = ALL

    def slopes(self, device: torch.device) -> Tensor:
        """Powers of 2^(-8/h); what a power of two lacks in heads is taken from the next, every other one."""
        whole = 2 ** int(math.log2(self.heads))
        ladder = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
        finer = [2 ** (-4 * (i + 1) / whole) for i in range(2 * whole)]
        return torch.tensor(ladder + finer[::2][: self.heads - whole], device=device)

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """-> (h, q, k), or (b, h, q, k) when the rows differ"""
        return -self.slopes(device)[:, None, None] * self.mask.distances(rows, columns, device).abs()

    def tile(self, rows: slice, columns: int) -> "ALiBi":
        return ALiBi(self.heads, self.mask.tile(rows, columns))


def buckets(offset: Tensor, count: int, longest: int, *, both: bool) -> Tensor:
    """T5 (Raffel et al., 2020), section 2.1: near distances one bucket each, far ones share buckets of growing width.

    offset is key minus query. Looking both ways, half of the buckets are for keys that come later.
    """
    later = torch.zeros_like(offset)
    if both:
        count //= 2
        later = (offset > 0) * count
    steps = offset.abs() if both else (-offset).clamp(min=0)
    exact = count // 2
    growth = torch.log(steps.clamp(min=1).float() / exact) / math.log(longest / exact) * (count - exact)
    far = (exact + growth.long()).clamp(max=count - 1)
    return later + torch.where(steps < exact, steps, far)


class Buckets(nn.Module):
    """T5's relative positions: one number for each bucket of distances and each head, shared by a stack's layers."""

    def __init__(self, heads: int, count: int = 32, longest: int = 128, *, both: bool = True) -> None:
        super().__init__()
        self.count, self.longest, self.both = count, longest, both
        self.weight = nn.Parameter(torch.empty(count, heads))
        nn.init.normal_(self.weight, std=heads**-0.5)

    def forward(self, mask: Mask = ALL) -> "BucketBias":
        return BucketBias(self, mask)


@dataclass(frozen=True, eq=False)
class BucketBias:
    table: Buckets
    mask: Mask

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """-> (h, q, k), or (b, h, q, k) when the rows differ"""
        away = self.mask.distances(rows, columns, device)
        bucket = buckets(away, self.table.count, self.table.longest, both=self.table.both)
        numbers = self.table.weight[bucket].movedim(-1, -3)
        return numbers.squeeze(-4) if bucket.ndim > 2 else numbers

    def tile(self, rows: slice, columns: int) -> "BucketBias":
        return BucketBias(self.table, self.mask.tile(rows, columns))


@lru_cache(maxsize=64)
def window_offsets(height: int, width: int, device: torch.device) -> Tensor:
    """Swin's relative index: query minus key, row and column, as one number.  -> (height*width, height*width)"""
    with torch.inference_mode(False):  # remembered tensors must serve training too
        y, x = torch.meshgrid(*(torch.arange(side, device="cpu") for side in (height, width)), indexing="ij")
        y, x = y.flatten(), x.flatten()
        rows = y[:, None] - y + height - 1
        columns = x[:, None] - x + width - 1
        return (rows * (2 * width - 1) + columns).to(device)


class WindowBias(nn.Module):
    """Swin (Liu et al., 2021), section 3.2: one number for each head and each 2-D offset within a window."""

    def __init__(self, heads: int, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.weight = nn.Parameter(torch.empty((2 * height - 1) * (2 * width - 1), heads))
        truncated_normal(self.weight)

    def forward(self, height: int | None = None, width: int | None = None) -> Tensor:
        """-> (h, n, n), n = height * width; a smaller window than the table's has the smaller ones of its offsets"""
        height, width = height or self.height, width or self.width
        if height > self.height or width > self.width:
            raise ValueError(
                f"the position bias is for windows of at most {self.height} x {self.width}, got {height} x {width}"
            )
        table: Tensor = self.weight
        if (height, width) != (self.height, self.width):
            table = self.offsets()[self.height - height :, self.width - width :][: 2 * height - 1, : 2 * width - 1]
            table = table.flatten(0, 1)
        return table[window_offsets(height, width, table.device)].movedim(-1, 0)

    def offsets(self) -> Tensor:
        """-> (rows, columns, h): by how much the key is above and to the left of the query, from most to least"""
        return self.weight.unflatten(0, (2 * self.height - 1, 2 * self.width - 1))

    def resized(self, height: int, width: int) -> Tensor:
        """The table interpolated for windows of another size, bicubic, as in the authors' code. -> (offsets, h)"""
        if (height, width) == (self.height, self.width):
            return self.weight
        grid, size = self.offsets().movedim(-1, 0)[None], (2 * height - 1, 2 * width - 1)
        return F.interpolate(grid, size=size, mode="bicubic", align_corners=False)[0].flatten(1).mT


class LogBias(nn.Module):
    """Swin v2 (Liu et al., 2022), https://arxiv.org/abs/2111.09883, section 3.3: a small network computes the bias of
    each head from the logarithm of an offset, so that it extrapolates little in larger windows.

        16 sigmoid(MLP(log y, log x)), log x = sign(x) log2(|8x / (window - 1)| + 1) / log2 8

    ``window`` is the one of training; all windows are measured by it.
    """

    def __init__(self, heads: int, window: int, hidden: int = 512) -> None:
        super().__init__()
        self.window = window
        self.up, self.down = nn.Linear(2, hidden), nn.Linear(hidden, heads, bias=False)

    def forward(self, height: int, width: int) -> Tensor:
        """-> (h, n, n), n = height * width"""
        offsets = log_spaced(height, width, self.window).to(self.up.weight)
        numbers = self.down(F.relu(self.up(offsets.flatten(0, 1))))
        return 16 * torch.sigmoid(numbers[window_offsets(height, width, numbers.device)].movedim(-1, 0))


@lru_cache(maxsize=64)
def log_spaced(height: int, width: int, window: int) -> Tensor:
    """All offsets down and across in a window, by their logarithm.  -> (2 height - 1, 2 width - 1, 2), in float64"""
    with torch.inference_mode(False):  # remembered tensors must serve training too
        sides = []
        for side in (height, width):
            far = 8 * torch.arange(1 - side, side, dtype=torch.float64, device="cpu") / max(window - 1, 1)
            sides.append(far.sign() * torch.log2(far.abs() + 1) / math.log2(8))
        return torch.stack(torch.meshgrid(*sides, indexing="ij"), -1)


class OffsetBias(nn.Module):
    """LeViT (Graham et al., 2021), https://arxiv.org/abs/2104.01136, section 4.2: one number for each head and each
    distance down and across, whichever way; so a mirrored image has the mirrored maps."""

    def __init__(self, heads: int, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.weight = nn.Parameter(torch.zeros(heads, height * width))

    def forward(self, height: int, width: int, stride: int = 1) -> Tensor:
        """Of queries at every ``stride``-th row and column of a grid; of another grid than the table's, bilinear.

        -> (h, q, k), k = height * width
        """
        table = self.resized(height, width)
        return table[:, distances(height, width, stride, table.device)]

    def resized(self, height: int, width: int) -> Tensor:
        """The table interpolated for another grid, bilinear. -> (h, height * width)"""
        if (height, width) == (self.height, self.width):
            return self.weight
        grid = self.weight.unflatten(1, (self.height, self.width))[None]
        return F.interpolate(grid, size=(height, width), mode="bilinear", align_corners=True)[0].flatten(1)


@lru_cache(maxsize=64)
def distances(height: int, width: int, stride: int, device: torch.device) -> Tensor:
    """The row and column distance between a query and a key, as one index. -> (q, k)"""
    with torch.inference_mode(False):  # remembered tensors must serve training too
        y, x = torch.meshgrid(*(torch.arange(side, device="cpu") for side in (height, width)), indexing="ij")
        rows = (y[::stride, ::stride].flatten()[:, None] - y.flatten()).abs()
        columns = (x[::stride, ::stride].flatten()[:, None] - x.flatten()).abs()
        return (rows * width + columns).to(device)


def refit_tables(old: nn.Module, new: nn.Module) -> dict[str, Tensor]:
    """The weights of ``old``, with the position-bias tables interpolated for the windows and grids of ``new``."""
    found, places = dict(old.state_dict()), dict(new.named_modules())
    for name, module in old.named_modules():
        other = places.get(name)
        if isinstance(module, WindowBias | OffsetBias) and isinstance(other, WindowBias | OffsetBias):
            found[f"{name}.weight"] = module.resized(other.height, other.width)
    return found


def interpolate(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Learned 2-D positions for another grid, bicubic.  (1, special + rows*columns, d) -> (1, special + new, d)

    What stands before the grid (a class token) is kept as it is.
    """
    if old == new:
        return table
    special = table.shape[1] - old[0] * old[1]
    if special < 0:
        raise ValueError(f"{table.shape[1]} position embeddings are too few for a grid of {old[0]} x {old[1]}")
    grid = table[:, special:].unflatten(1, old).movedim(-1, 1)
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat((table[:, :special], grid.movedim(1, -1).flatten(1, 2)), 1)
