"""Sparse attention: two patterns, strided and fixed, each of two parts that together reach every earlier key.

Generating Long Sequences with Sparse Transformers (Child et al., 2019), https://arxiv.org/abs/1904.10509, section 4
    strided  near {j: i - l < j <= i},            far {j <= i: (i - j) mod l = 0}
    fixed    near {j <= i: j and i in one block},  far {j <= i: j among the last c places of a block} and i itself
Some heads may have the one part and some the other, layers may take turns, or a head has both ("merged"). With l about
sqrt(n) a query sees about sqrt(n) keys, so that all cost n sqrt(n). Strided suits what has rows, as images have; fixed
suits text: there the last places of a block sum it up for all that follow.

Differs from the paper: where a model may look ahead, both parts go both ways; the far part of fixed holds the query
itself, since else a text's first words would see nothing; all heads read the same summaries.

Shapes: b batch, h heads, g groups, n places, l stride or block, m = n / l rows of a grid, e width of a head.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import attention
from ..attention import Kernel, Mixer, Softmax, by_rows, repeat_heads
from ..mask import ALL, Bias, Mask, add_head_axis, count, masked_softmax
from ..recomputation import RowPart
from ..site import Site
from .local import SMALL, Local, away, earlier, one_or_more, within

Looks = Literal["split", "near", "far", "merged"]  # split: half of the heads look near, half of them far
STRIDE = 128  # the paper's, where no length is known of which to take the root


def orderly(q: Tensor, mask: Mask, bias: Bias | None) -> bool:
    """Whether the fast path applies: positions are plain integers, and there is no mask of pairs."""
    return bias is None and mask.pairs is None and isinstance(mask.start, int) and q.shape[-2] > 0


def grid(x: Tensor, before: int, width: int) -> Tensor:
    """Lay rows out in lines of a grid, from the place ``before`` in its first line on.

    (..., n, e) -> (..., m, l, e); what is not covered is zero
    """
    after = -(before + x.shape[-2]) % width
    x = F.pad(x, (0, 0, before, after)) if before or after else x
    return x.unflatten(-2, (x.shape[-2] // width, width))


def real_keys(mask: Mask, columns: int, width: int, device: torch.device) -> Tensor:
    """Which places of the keys' grid hold a key that may be seen.  -> bool (..., m, l)"""
    keys = torch.ones(columns, dtype=torch.bool, device=device) if mask.keys is None else mask.keys
    return grid(keys[..., None], 0, width).squeeze(-1)


class StridedColumns(Kernel):
    """Strided, far: the keys in the query's own column, if places are laid out in lines of l.

    The columns are sequences of their own, n / l long, so this is softmax attention with the columns as a batch.
    """

    def __init__(self, stride: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if stride < 1:
            raise ValueError(f"the stride of strided attention must be at least 1, got {stride}")
        self.stride, self.softmax = stride, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.softmax.weights(q, k, within(mask, self.seen(mask, q.shape[-2], k.shape[-2], q.device)), bias)

    def seen(self, mask: Mask, rows: int, columns: int, device: torch.device) -> Tensor:
        steps = away(mask, rows, columns, device)
        return earlier(mask, steps % self.stride == 0, steps)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if not orderly(q, mask, bias):
            return super().forward(q, k, v, mask, bias)
        assert isinstance(mask.start, int)
        rows, columns, device = q.shape[-2], k.shape[-2], q.device
        stride = min(self.stride, max(columns, mask.start + rows))  # a line longer than all has as many columns
        line, column = divmod(mask.start, stride)
        if rows == 1:  # a step of decoding: one column, as it lies there
            mine = slice(column, min(columns, mask.start + 1) if mask.causal else columns, stride)
            keys = None if mask.keys is None else mask.keys[..., mine]
            return self.softmax(q, k[..., mine, :], v[..., mine, :], Mask(keys=keys))
        behind = mask.causal and mask.start + rows <= columns  # whatever fills the grid comes after every query
        keys = None if behind and mask.keys is None else real_keys(mask, columns, stride, device).mT
        q, k, v = (grid(x, before, stride).movedim(-2, -4) for x, before in ((q, column), (k, 0), (v, 0)))
        inner = Mask(mask.causal, line, keys)  # (b, l, h, m, e)
        if keys is None and not (self.training and self.dropout.p):
            y = self.softmax(q, k, v, inner)
        else:
            y = by_rows(self.softmax, q, k, v, inner, None, footprint=stride)
        return y.movedim(-4, -2).flatten(-3, -2)[..., column : column + rows, :]


class Merged(Kernel):
    """Strided, both parts in one head: the near keys, and the query's own column."""

    def __init__(self, stride: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if stride < 1:
            raise ValueError(f"the stride of strided attention must be at least 1, got {stride}")
        self.stride, self.softmax = stride, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.softmax.weights(q, k, within(mask, self.seen(mask, q.shape[-2], k.shape[-2], q.device)), bias)

    def seen(self, mask: Mask, rows: int, columns: int, device: torch.device) -> Tensor:
        steps = away(mask, rows, columns, device)
        return earlier(mask, (steps.abs() < self.stride) | (steps % self.stride == 0), steps)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if not orderly(q, mask, bias):
            return super().forward(q, k, v, mask, bias)
        assert isinstance(mask.start, int)
        rows, columns, column = q.shape[-2], k.shape[-2], mask.start % self.stride
        if rows == 1:
            return self.one(q, k, v, mask)
        if self.stride >= max(columns, mask.start + rows):  # all is near
            return self.softmax(q, k, v, mask)
        k, v = repeat_heads(k, q.shape[-3]), repeat_heads(v, q.shape[-3])
        q = grid(q, column, self.stride).flatten(-3, -2)
        lines = [grid(x, 0, self.stride).transpose(-3, -2).contiguous() for x in (k, v)]  # (b, h, l, m, e)
        real = real_keys(mask, columns, self.stride, q.device)
        wide = max(self.stride, SMALL)
        most = attention.DENSE // (wide + 2 * self.stride + real.shape[-2])  # rows of scores, each of so many keys
        height = self.stride * max(min(wide, most) // self.stride, 1)
        tops = range(0, q.shape[-2], height)
        parts = [self.part(mask, real, slice(top, min(top + height, q.shape[-2])), columns) for top in tops]
        return one_or_more(parts, q, k, v, *lines)[..., column : column + rows, :]

    def one(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """A step of decoding: its few keys are picked."""
        assert isinstance(mask.start, int)
        end = min(k.shape[-2], mask.start + 1) if mask.causal else k.shape[-2]
        near = range(max(mask.start - self.stride + 1, 0), min(end, mask.start + self.stride))
        far = range(mask.start % self.stride, end, self.stride)
        places = torch.tensor([*near, *(j for j in far if j not in near)], dtype=torch.long, device=q.device)
        keys = None if mask.keys is None else mask.keys.index_select(-1, places)
        return self.softmax(q, k.index_select(-2, places), v.index_select(-2, places), Mask(keys=keys))

    def part(self, mask: Mask, real: Tensor, rows: slice, columns: int) -> RowPart:
        """Some whole lines of queries: the keys near them, and all lines above, column by column."""
        assert isinstance(mask.start, int)
        stride, line = self.stride, mask.start // self.stride + rows.start // self.stride
        lines, first = (rows.stop - rows.start) // stride, line * stride
        last = first + lines * stride
        end = min(columns, last if mask.causal else last + stride - 1)
        near = slice(min(max(first - stride + 1, 0), end), end)
        above = slice(0, min(line + lines, real.shape[-2]) if mask.causal else real.shape[-2])

        def allowed(device: torch.device) -> Tensor:
            """-> bool (..., q, near + above)"""
            steps = away(Mask(start=first), last - first, near.stop - near.start, device, near.start)
            around = earlier(mask, steps.abs() < stride, steps)
            around = around if mask.keys is None else around & mask.keys[..., None, None, near]
            own, others = torch.arange(line, line + lines, device=device), torch.arange(above.stop, device=device)
            beyond = (others < own[:, None]) if mask.causal else (others != own[:, None])  # one's own line is near
            beyond = beyond[:, None, :] & real[..., above, :].mT.unsqueeze(-3)  # (..., lines, l, above)
            return side_by_side(around, add_head_axis(beyond.flatten(-3, -2)))

        def make(q: Tensor, k: Tensor, v: Tensor, columns_k: Tensor, columns_v: Tensor) -> Tensor:
            scores = torch.cat((q @ k.mT, flat(standing(q, stride) @ columns_k.mT)), -1) * q.shape[-1] ** -0.5
            weights = self.dropout(masked_softmax(scores, allowed(q.device)))
            here, there = weights.split((k.shape[-2], above.stop), -1)
            return here @ v + flat(standing(there, stride) @ columns_v)

        return RowPart(rows, (rows, near, near, above, above), make)


def standing(x: Tensor, stride: int) -> Tensor:
    """Lines of places as columns.  (..., m * l, e) -> (..., l, m, e)"""
    return x.unflatten(-2, (-1, stride)).transpose(-3, -2)


def flat(x: Tensor) -> Tensor:
    """And back.  (..., l, m, e) -> (..., m * l, e)"""
    return x.transpose(-3, -2).flatten(-3, -2)


class Fixed(Kernel):
    """Fixed, near, far or merged: a tile of queries sees its own surroundings and what sums up the blocks.

    Blocks are counted in each sentence from its own first word, so padding before it moves nothing. Padding within it
    counts as distance: near is also less than a block away.
    """

    def __init__(self, block: int, summary: int, looks: Literal["near", "far", "merged"], dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if block < 1:
            raise ValueError(f"the block of fixed attention must be at least 1, got {block}")
        if not 1 <= summary <= block:
            raise ValueError(f"summary must be from 1 to the block size {block}, got {summary}")
        self.block, self.summary, self.looks, self.softmax = block, summary, looks, Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return self.softmax.weights(q, k, within(mask, self.seen(mask, q.shape[-2], k.shape[-2], q.device)), bias)

    def seen(self, mask: Mask, rows: int, columns: int, device: torch.device) -> Tensor:
        steps = away(mask, rows, columns, device)
        positions = torch.arange(columns, device=device) if mask.keys is None else count(mask.keys)
        own = self.surroundings(mask.positions(rows, device), positions, steps)
        sums_up = positions[..., None, :] % self.block >= self.block - self.summary
        return earlier(mask, own if self.looks == "near" else own | add_head_axis(sums_up), steps)

    def surroundings(self, queries: Tensor, keys: Tensor, steps: Tensor) -> Tensor:
        """Which keys near a query it sees: its block, or only itself. positions (..., q), (..., k) -> (..., q, k)"""
        if self.looks == "far":
            return steps == 0
        same = queries[..., :, None] // self.block == keys[..., None, :] // self.block
        return add_head_axis(same) & (steps.abs() < self.block)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if not orderly(q, mask, bias):
            return super().forward(q, k, v, mask, bias)
        if self.looks == "near" and mask.keys is None:
            return self.blocks(q, k, v, mask)
        rows, columns = q.shape[-2], k.shape[-2]
        summaries = Summaries.of(self, mask, columns, q.device)
        wide = max(self.block, SMALL)
        most = attention.DENSE // (wide + 2 * self.block + summaries.count)
        height = max(min(wide, most), 1)
        tiles = [slice(top, min(top + height, rows)) for top in range(0, rows, height)]
        parts = [self.part(mask, summaries, tile, columns) for tile in tiles]
        return one_or_more(parts, q, k, v, summaries.pick(k), summaries.pick(v))

    def blocks(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Without padding blocks lie side by side, and each is a sequence of its own."""
        assert isinstance(mask.start, int)
        place = mask.start % self.block
        first, rows, columns = mask.start - place, q.shape[-2], k.shape[-2]
        if place + rows <= self.block:  # all in one
            end = min(first + self.block, columns)
            own = slice(min(first, end), end)
            return self.softmax(q, k[..., own, :], v[..., own, :], Mask(mask.causal, place))
        q = grid(q, place, self.block).transpose(-4, -3)  # (b, m, h, l, e)
        last = min(first + q.shape[-4] * self.block, columns)
        lines = [self.lines(x[..., min(first, last) : last, :], q.shape[-4]) for x in (k, v)]
        behind = mask.causal and mask.start + rows <= columns  # whatever fills the grid comes after every query
        held = torch.arange(first, first + q.shape[-4] * self.block, device=q.device) < columns
        inner = Mask(mask.causal, keys=None if behind else held.unflatten(0, (-1, self.block)))
        y = self.softmax(q, *lines, inner)
        return y.transpose(-4, -3).flatten(-3, -2)[..., place : place + rows, :]

    def lines(self, x: Tensor, count_of: int) -> Tensor:
        """(b, g, n, e) -> (b, m, g, l, e); what is not covered is zero"""
        return F.pad(x, (0, 0, 0, count_of * self.block - x.shape[-2])).unflatten(-2, (count_of, -1)).transpose(-4, -3)

    def part(self, mask: Mask, summaries: "Summaries", rows: slice, columns: int) -> RowPart:
        """Some queries, the keys around any of them, and the summaries that any of them may see."""
        assert isinstance(mask.start, int)
        first, last = mask.start + rows.start, mask.start + rows.stop
        reach = 0 if self.looks == "far" else self.block - 1
        end = min(columns, last if mask.causal else last + reach)
        near = slice(min(max(first - reach, 0), end), end)
        before = slice(0, min(self.summaries(last), summaries.count) if mask.causal else summaries.count)
        here = Mask(mask.causal, first, mask.keys)

        def make(q: Tensor, k: Tensor, v: Tensor, sums_k: Tensor, sums_v: Tensor) -> Tensor:
            queries = here.positions(q.shape[-2], q.device)
            steps = away(here, q.shape[-2], k.shape[-2], q.device, near.start)
            positions = torch.arange(near.start, near.stop, device=q.device)
            positions = positions if mask.keys is None else count(mask.keys)[..., near]
            around = earlier(mask, self.surroundings(queries, positions, steps), steps)
            far = summaries.places[..., before][..., None, :] - here.places(q.shape[-2], q.device)[:, None]
            far = add_head_axis(far)
            twice = self.surroundings(queries, summaries.positions[before], far)
            pairs = side_by_side(around, earlier(mask, ~twice, far))
            keys = None if mask.keys is None else torch.cat((mask.keys[..., near], summaries.real[..., before]), -1)
            return self.softmax(q, torch.cat((k, sums_k), -2), torch.cat((v, sums_v), -2), Mask(keys=keys, pairs=pairs))

        return RowPart(rows, (rows, near, near, before, before), make)

    def summaries(self, n: int) -> int:
        """Number of summary positions among the first n."""
        whole, rest = divmod(n, self.block)
        return 0 if self.looks == "near" else whole * self.summary + max(rest - self.block + self.summary, 0)


@dataclass(frozen=True, eq=False)
class Summaries:
    """The summary keys of the blocks, their positions, and whether they exist: short sequences have fewer."""

    positions: Tensor  # (s,), each in its own sentence
    places: Tensor  # (s,), or (..., s) where padding moves them
    real: Tensor  # bool, as places

    @property
    def count(self) -> int:
        return len(self.positions)

    @staticmethod
    def of(kernel: Fixed, mask: Mask, columns: int, device: torch.device) -> "Summaries":
        block, first = kernel.block, kernel.block - kernel.summary
        ends = torch.arange(first, max(min(block, columns), first), device=device)
        starts = torch.arange(0, columns, block, device=device)
        positions = (starts[:, None] + ends).flatten()[: kernel.summaries(columns)]
        if mask.keys is None:
            return Summaries(positions, positions, torch.ones_like(positions, dtype=torch.bool))
        order = (
            (~mask.keys).to(torch.uint8).argsort(stable=True, dim=-1)
        )  # where each sentence's first, second ... word is
        return Summaries(positions, order[..., positions], positions < mask.keys.sum(-1, keepdim=True))

    def pick(self, x: Tensor) -> Tensor:
        """(b, g, n, e) -> (b, g, s, e)"""
        if self.places.ndim == 1:
            return x.index_select(-2, self.places)
        places = self.places[..., None, :, None]
        return x.take_along_dim(places.expand(*x.shape[:-3], *places.shape[-3:]), -2)


def side_by_side(a: Tensor, b: Tensor) -> Tensor:
    """(..., q, k), (..., q, s) -> (..., q, k + s)"""
    lead = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat((a.expand(*lead, -1), b.expand(*lead, -1)), -1)


class SplitHeads(Kernel):
    """Some heads use one pattern, the others another; of an odd number of heads the first pattern has one more."""

    def __init__(self, first: Local | Fixed, second: StridedColumns | Fixed, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.ways, self.softmax = nn.ModuleList([first, second]), Softmax(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        first, second = self.ways
        assert isinstance(first, Local | Fixed)
        assert isinstance(second, StridedColumns | Fixed)
        sizes = q.shape[-2], k.shape[-2], q.device
        mine = torch.arange(q.shape[-3], device=q.device) < self.heads(q)[0].stop
        seen = torch.where(mine[:, None, None], first.seen(mask, *sizes), second.seen(mask, *sizes))
        return self.softmax.weights(q, k, within(mask, seen), bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        if not orderly(q, mask, bias):
            return super().forward(q, k, v, mask, bias)
        n, parts = q.shape[-3], self.heads(q)
        return torch.cat(
            [
                way(q[..., part, :, :], of_heads(k, n, part), of_heads(v, n, part), mask)
                for way, part in zip(self.ways, parts, strict=True)
                if part.start < part.stop
            ],
            -3,
        )

    def heads(self, q: Tensor) -> tuple[slice, slice]:
        half = (q.shape[-3] + 1) // 2
        return slice(0, half), slice(half, q.shape[-3])


def of_heads(x: Tensor, heads: int, part: slice) -> Tensor:
    """The keys or values of some heads, still in groups where none is cut in two.  (b, g, k, e) -> (b, g', k, e)"""
    each = heads // x.shape[-3]
    if x.shape[-3] == 1:
        return x
    if part.start % each or part.stop % each:
        x, each = repeat_heads(x, heads), 1
    return x[..., part.start // each : part.stop // each, :, :]


def one_sequence(site: Site, name: str) -> None:
    if site.cross:
        raise ValueError(
            f"{name} attention compares positions within one sequence, so it does not support "
            "cross-attention to a context"
        )


def root(site: Site) -> int:
    """The stride or block for a place in a model: about the root of the longest input."""
    return STRIDE if site.length is None else max(round(math.sqrt(site.length)), 1)


@dataclass(frozen=True, kw_only=True)
class StridedSettings:
    stride: int | None = None  # the root of the longest input unless given, and 128 where none is known
    looks: Looks = "split"


def strided(settings: StridedSettings, site: Site) -> Mixer:
    one_sequence(site, "strided")
    stride, p = root(site) if settings.stride is None else settings.stride, site.dropout
    far, near = StridedColumns(stride, p), Local(stride, p)
    kernels = {"near": near, "far": far, "merged": Merged(stride, p), "split": SplitHeads(near, far, p)}
    return site.attention(kernels[settings.looks])


@dataclass(frozen=True, kw_only=True)
class FixedSettings:
    block: int | None = None  # the root of the longest input unless given, and 128 where none is known
    summary: int | None = None  # last places of a block that all may see; one in 16 unless given, as 8 of 128
    looks: Looks = "split"


def fixed(settings: FixedSettings, site: Site) -> Mixer:
    one_sequence(site, "fixed")
    block, p = root(site) if settings.block is None else settings.block, site.dropout
    summary = max(block // 16, 1) if settings.summary is None else settings.summary
    if settings.looks == "split":
        return site.attention(SplitHeads(Fixed(block, summary, "near", p), Fixed(block, summary, "far", p), p))
    return site.attention(Fixed(block, summary, settings.looks, p))
