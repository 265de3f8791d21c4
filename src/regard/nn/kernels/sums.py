"""Linear attention: weights that are products of features, so that keys are summed once and every query reads the sums.

    y_i = f(q_i) S_i / f(q_i) z_i,    S_i = sum_j e^(l_j) f(k_j) v_j^T,    z_i = sum_j e^(l_j) f(k_j)

over the keys j that query i may see. ``l`` is a key's level: what its features, its gate or its padding (minus
infinity) make of it. Levels may differ by thousands, so sums are kept relative to the highest level so far, their
peak. Each query is compared with the peak of what it sees itself, so nothing of a later key reaches it.

Neither queries x keys nor keys x features stand in memory: sequences go tile by tile, and again for the gradient. Only
the sums before each tile are kept.

Shapes: b rows of a batch times their heads, n positions, t of a tile, c of a chunk, m features, e width of a head,
f width of its values; f+1 where the sum of features stands beside the sums of values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from .. import attention
from ..attention import repeat_heads
from ..cache import Slot
from ..mask import Bias, Mask
from ..recomputation import RowPart, compute_in_parts, is_traced, recompute_forward, same, some
from ..site import DropoutError, Site

CHUNK = 64  # positions that are compared pair by pair; all before them is read from sums
TILE = 512  # positions of a tile; as many heads go together as memory allows
LOWEST = -1e30  # the level of nothing at all; finite, so that two of them differ by zero


@dataclass(frozen=True)
class Lifted:
    values: Tensor  # (..., n, m): features, up to a factor
    level: Tensor  # (..., n, 1): the logarithm of that factor


@dataclass(frozen=True)
class Keys:
    k: Tensor  # (..., n, e)
    v: Tensor  # (..., n, f)
    level: Tensor  # (..., n, 1)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.k, self.v, self.level))

    def cut(self, rows: slice) -> "Keys":
        return Keys(*(x[..., rows, :] for x in self))


@dataclass(frozen=True)
class Sums:
    """Sums over all keys so far."""

    total: Tensor  # (..., m, f+1)
    peak: Tensor  # (..., 1, 1): the level that the total is relative to

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.total, self.peak))


@dataclass(frozen=True)
class Mixed:
    rows: Tensor  # (..., n, f); where there were no queries, none
    sums: Sums


@dataclass(frozen=True)
class LinearAttention:
    """Linear attention with given features of (..., n, e), and the minimum absolute sum of the weights of a query."""

    lift: Callable[[Tensor], Lifted]
    least: float

    def weights(self, q: Tensor, k: Tensor, mask: Mask, level: Tensor | None = None) -> Tensor:
        """(..., h, q, e), (..., g, k, e), (..., h, k) -> (..., h, q, k): the definition"""
        with exact(q):
            queries, keys = self.lift(precise(q)), self.lift(precise(repeat_heads(k, q.shape[-3])))
            levels = keys.level.mT if level is None else keys.level.mT + level[..., None, :]
            allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)
            levels = levels if allowed is None else levels.masked_fill(~allowed, -torch.inf)
            peaks = F.pad(levels.detach(), (0, 1), value=LOWEST).amax(-1, keepdim=True)
            scores = queries.values @ keys.values.mT * (levels - peaks).exp()
            return (scores / self.kept_off(scores.sum(-1, keepdim=True))).to(q.dtype)

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, level: Tensor | None = None, past: Sums | None = None
    ) -> Mixed:
        """(..., h, q, e), (..., g, k, e), (..., g, k, f), (..., h, k) -> (..., h, q, f), and the sums of all keys.

        The mask is that of these keys; all of the past is seen.
        """
        heads, lead, dtype = q.shape[-3], q.shape[:-2], q.dtype
        q, k, v = precise(q), precise(repeat_heads(k, heads)), precise(repeat_heads(v, heads))
        level = q.new_zeros(*lead, k.shape[-2]) if level is None else level.to(q.dtype)
        level = level if mask.keys is None else level.masked_fill(~mask.keys[..., None, :], -torch.inf)
        seen, beside = divided(Keys(k, v, level[..., None]), mask, q.shape[-2])
        with exact(q):
            past = self.nothing(q, v) if past is None else past
            parts = [x.flatten(0, -3) for x in (past.total, past.peak, q, *seen, *beside)]
            together = max(attention.DENSE // (TILE * past.total.shape[-2]), 1)
            found = [
                self.mix_heads(Sums(total, peak), queries, Keys(*keys[:3]), Keys(*keys[3:]))
                for total, peak, queries, *keys in zip(*(x.split(together) for x in parts), strict=True)
            ]
            rows, total, peak = (torch.cat(x) for x in zip(*((x.rows, *x.sums) for x in found), strict=True))
        sums = Sums(total.reshape(past.total.shape), peak.reshape(past.peak.shape))
        return Mixed(rows.reshape(*lead, *rows.shape[-2:]).to(dtype), sums)

    def nothing(self, q: Tensor, v: Tensor) -> Sums:
        """The sums of no keys."""
        features = self.lift(q[..., :0, :]).values.shape[-1]
        return Sums(q.new_zeros(*q.shape[:-2], features, v.shape[-1] + 1), q.new_full((*q.shape[:-2], 1, 1), LOWEST))

    def mix_heads(self, sums: Sums, q: Tensor, seen: Keys, beside: Keys) -> Mixed:
        """For (b, n, e): first the keys that all queries see, then those that come one with each query."""
        if seen.k.shape[-2]:
            sums = along(self.gather, sums, *seen).sums
        if beside.k.shape[-2]:
            return along(self.scan, sums, q, *beside)
        features = slice(0, sums.total.shape[-2])
        parts = [RowPart(tile, (tile, features), self.read) for tile in tiles(sums, q.shape[-2])]
        rows = compute_in_parts(parts, q, sums.total) if parts else self.read(q, sums.total)
        return Mixed(rows, sums)

    def gather(self, sums: Sums, k: Tensor, v: Tensor, level: Tensor) -> Mixed:
        """Add the keys of a tile: (b, t, e), (b, t, f), (b, t, 1)"""
        keys = self.lift(k)
        levels = keys.level + level
        peak = torch.maximum(sums.peak, levels.detach().amax(-2, keepdim=True))
        new = keys.values.mT @ ((levels - peak).exp() * with_one(v))
        return Mixed(v[..., :0, :], Sums(new + sums.total * (sums.peak - peak).exp(), peak))

    def read(self, q: Tensor, total: Tensor) -> Tensor:
        """(b, t, e), (b, m, f+1) -> (b, t, f)"""
        return self.divided(self.lift(q).values @ total)

    def kept_off(self, sums: Tensor) -> Tensor:
        """Away from zero, on either side. Who sees nothing has sums of zero, and divides by one: what is divided by a
        tiny number has a huge gradient."""
        away = torch.where(sums < 0, sums.clamp(max=-self.least), sums.clamp(min=self.least))
        return away.masked_fill(sums == 0, 1.0)

    def divided(self, y: Tensor) -> Tensor:
        return y[..., :-1] / self.kept_off(y[..., -1:])

    def scan(self, sums: Sums, q: Tensor, k: Tensor, v: Tensor, level: Tensor) -> Mixed:
        """A tile in which each query sees all before the tile, and in it the keys up to its own place.

        The pairs within a chunk are compared; what is before the chunk is read from its sums, and these are made for
        all chunks of the tile at once.
        """
        chunk = min(chunk_size(), q.shape[-2])
        keys = self.lift(k)
        a, b, v, levels = (
            x.unflatten(-2, (-1, chunk)) for x in (self.lift(q).values, keys.values, with_one(v), keys.level + level)
        )  # (b, chunks, c, m), the same, (b, chunks, c, f+1), (b, chunks, c, 1)
        highest = levels.detach().cummax(-2).values
        own = torch.cat((sums.peak[:, None], highest[..., -1:, :].clamp(min=LOWEST)), 1)  # of the past, of each chunk
        peaks = own.cummax(1).values  # (b, 1 + chunks, 1, 1): before each chunk, and after the last
        here = torch.maximum(highest, peaks[:, :-1])  # (b, chunks, c, 1): of what each query sees

        scores = a @ b.mT * later_silent(levels.mT - here)
        new = b.mT @ ((levels - own[:, 1:]).exp() * v)
        added = torch.cat((sums.total[:, None], new), 1)  # (b, 1 + chunks, m, f+1)
        share = later_silent(own.flatten(1)[:, None, :] - peaks.flatten(1)[:, :, None])
        totals = (share @ added.flatten(2)).unflatten(2, added.shape[2:])
        y = scores @ v + a @ totals[:, :-1] * (peaks[:, :-1] - here).exp()
        return Mixed(self.divided(y).flatten(1, 2), Sums(totals[:, -1], peaks[:, -1]))


def decode(
    linear: LinearAttention, slot: Slot, q: Tensor, k: Tensor, v: Tensor, mask: Mask, level: Tensor | None = None
) -> Tensor:
    """One decoding step: the new positions only, with their own mask; the sums over the past are in the slot."""
    past = Sums(slot["sums"], slot["peak"]) if "sums" in slot else None
    mixed = linear.mix(q, k, v, mask, level, past)
    slot["sums"], slot["peak"] = mixed.sums
    return mixed.rows


def fresh(slot: Slot, mask: Mask, k: Tensor) -> Mask:
    """The part of a decoder's mask that is about the new positions (..., n, e), of the rows that are in the slot."""
    if "sums" in slot and len(slot["sums"]) != len(k):  # else one row would be added to all
        raise ValueError(
            f"a cache of {len(slot['sums'])} rows got {len(k)} rows of tokens: reorder the cache to match these rows"
        )
    return Mask(mask.causal, keys=mask.real(k.shape[-2], k.device))


def possible(mask: Mask, bias: Bias | None) -> Mask:
    """The mask; what cannot be honoured without scores is refused."""
    if bias is not None:
        raise ValueError("linear attention never forms the score matrix, so it cannot take a bias")
    return mask.structured("linear attention")


def never_formed(site: Site) -> None:
    """Refuse a site that needs explicit scores."""
    if site.biased:
        raise ValueError("linear attention never forms the score matrix, so it cannot take a bias")
    if site.dropout:
        raise DropoutError("linear attention never forms the weights, so it does not support attention dropout")


def precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def exact(x: Tensor) -> AbstractContextManager[Any]:
    """Within, nothing is rounded to half precision: exponentials would not survive it."""
    kind = x.device.type
    mixed = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if mixed else nullcontext()


def with_one(v: Tensor) -> Tensor:
    """(..., n, f) -> (..., n, f+1): what is done to values is done to their number, too"""
    return F.pad(v, (0, 1), value=1.0)


def later_silent(levels: Tensor) -> Tensor:
    """e^level of each pair (..., i, j), and nothing of what comes later: j > i"""
    later = torch.ones(levels.shape[-2:], dtype=torch.bool, device=levels.device).triu(1)
    return levels.masked_fill(later, -torch.inf).exp()


def divided(keys: Keys, mask: Mask, rows: int) -> tuple[Keys, Keys]:
    """The keys that all of the queries see, and those that come one with each query; what none sees is left out."""
    columns, start = keys.k.shape[-2], mask.start
    if not mask.causal or not columns:
        return keys, keys.cut(slice(0, 0))
    if isinstance(start, Tensor):
        keys, start = shifted(keys, start, rows), columns
    elif start >= columns:
        return keys, keys.cut(slice(0, 0))
    if rows <= 1:
        return keys.cut(slice(0, start + rows)), keys.cut(slice(0, 0))
    seen, beside = keys.cut(slice(0, start)), keys.cut(slice(start, start + rows))
    missing = (0, 0, 0, rows - beside.k.shape[-2])
    k, v, level = beside
    return seen, Keys(F.pad(k, missing), F.pad(v, missing), F.pad(level, missing, value=-torch.inf))


def shifted(keys: Keys, start: Tensor, rows: int) -> Keys:
    """Let every row's queries begin at the same place, behind as many keys as there are; some of these are none."""
    columns = keys.k.shape[-2]
    places = torch.arange(-columns, rows, device=start.device) + start.clamp(max=columns)[..., None]
    places = places[..., None, :, None]  # (1, n, 1) or (b, 1, n, 1)
    places = places.reshape(*[1] * (keys.k.ndim - places.ndim), *places.shape)
    there = (places >= 0) & (places < columns)
    k, v, level = (x.take_along_dim(places.clamp(0, columns - 1), -2) for x in keys)
    return Keys(k, v, level.masked_fill(~there, -torch.inf))


def chunk_size() -> int:
    return max(min(CHUNK, int(attention.DENSE**0.5)), 1)


def tiles(sums: Sums, n: int) -> list[slice]:
    """Of n positions: each of whole chunks, and what remains."""
    chunk = chunk_size()
    size = max(attention.DENSE // max(sums.total.shape[0] * sums.total.shape[1], 1) // chunk, 1) * chunk
    ends = [*range(size, n, size), *([n // chunk * chunk] if n > chunk else []), n]
    ends = sorted(set(ends))
    return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)] if n else []


Make = Callable[..., Mixed]


def along(make: Make, sums: Sums, *inputs: Tensor) -> Mixed:
    """One tile after another, each with the sums of those before it; and each again for its gradient."""
    parts = tiles(sums, inputs[0].shape[-2])
    if is_traced(inputs):
        return apart(make, parts, sums, *inputs)
    rows, total, peak = Along.apply(make, parts, sums.total, sums.peak, *inputs)  # type: ignore[no-untyped-call]
    return Mixed(rows, Sums(total, peak))


def apart(make: Make, parts: Sequence[slice], sums: Sums, *inputs: Tensor) -> Mixed:
    """The same, but each tile has a graph of its own."""

    def run(total: Tensor, peak: Tensor, *cuts: Tensor) -> Mixed:
        return make(Sums(total, peak), *cuts)

    rows = []
    for tile in parts:
        cuts = [some(x, tile) for x in inputs]
        mixed = recompute_forward(run, *sums, *cuts) if torch.is_grad_enabled() else run(*sums, *cuts)
        sums = mixed.sums
        rows.append(mixed.rows)
    return Mixed(torch.cat(rows, -2), sums)


class Along(torch.autograd.Function):
    """The one node of all tiles."""

    @staticmethod
    def forward(
        ctx: Any, make: Make, parts: Sequence[slice], total: Tensor, peak: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        sums, kept = Sums(total, peak), []
        y: Tensor | None = None
        for tile in parts:
            kept.append(sums)
            mixed = make(sums, *(some(x, tile) for x in inputs))
            sums, rows = mixed.sums, mixed.rows
            if y is None:
                y = rows.new_empty(len(rows), parts[-1].stop if rows.shape[-2] else 0, rows.shape[-1])
            if rows.shape[-2]:
                some(y, tile).copy_(rows)
            del mixed, rows  # before the next tile
        ctx.make, ctx.parts = make, parts
        ctx.save_for_backward(*inputs, *(x.total for x in kept), *(x.peak for x in kept))
        ctx.mark_non_differentiable(sums.peak)
        assert y is not None, "no tiles"
        return y, sums.total, sums.peak

    @staticmethod
    def backward(ctx: Any, slope: Tensor, of_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        tensors, count = ctx.saved_tensors, len(ctx.parts)  # which may be asked for only once
        inputs, totals, peaks = tensors[: -2 * count], tensors[-2 * count : -count], tensors[-count:]
        if torch.is_grad_enabled():  # create_graph=True
            views = [x.view_as(x) for x in (totals[0], *inputs)]
            mixed = apart(ctx.make, ctx.parts, Sums(views[0], peaks[0]), *views[1:])
            of_total, *found = slopes(mixed, views, slope, of_total, twice=True)
            return None, None, of_total, None, *found
        whole = [torch.empty_like(x) if x.requires_grad else None for x in inputs]
        for tile, total, peak in reversed(list(zip(ctx.parts, totals, peaks, strict=True))):
            leaves = [some(x, tile).detach().requires_grad_(x.requires_grad) for x in inputs]
            before = total.detach().requires_grad_()
            with torch.enable_grad(), exact(slope), saved_tensors_hooks(same, same):  # gone before anyone could pack it
                mixed = ctx.make(Sums(before, peak), *leaves)
            rows = slice(0, 0) if mixed.rows.shape[-2] == 0 else tile
            of_total, *found = slopes(mixed, [before, *leaves], some(slope, rows), of_total)
            for x, part in zip(whole, found, strict=True):
                if x is not None:
                    some(x, tile).copy_(part)
            del mixed, found  # before the next tile
        return None, None, of_total, None, *whole


def slopes(
    mixed: Mixed, inputs: Sequence[Tensor], slope: Tensor, of_total: Tensor, *, twice: bool = False
) -> list[Any]:
    """By each input that wants one, of outputs that move by ``slope`` and ``of_total``."""
    wanted = [x for x in inputs if x.requires_grad]
    both = [(mixed.rows, slope), (mixed.sums.total, of_total)]
    outputs, toward = zip(*((y, along) for y, along in both if y.requires_grad), strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, toward, create_graph=twice, materialize_grads=True))
    return [next(found) if x.requires_grad else None for x in inputs]
