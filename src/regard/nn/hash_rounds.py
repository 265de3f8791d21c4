"""Attention in rounds: in each, the positions stand in another order, and each looks at those that stand near it.

The order is cut into chunks, and a chunk looks at itself and at the one before it, so that all of it is products of
small blocks. What a query found in one round and in another is one softmax over all that it met:
    o_i = sum_r exp(l_i^r - l_i) o_i^r, l_i = log sum_r exp l_i^r
where l_i^r is the logarithm of what the softmax of round r divides by. The same holds backward: with o_i and l_i, which
are of all rounds, the gradient of each block is that of any attention. So nothing is kept but q, k, v, o, l and the
orders, and each block is computed again for its gradient.

Shapes: g rows (batch times heads), n positions, r rounds, c chunks of m positions, w keys that a chunk sees, e width of
a head, f of its values. An item is a position by its number in the text, a place is where it stands in a round.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from . import attention
from .dropout import dropped
from .recomputation import Moment, slopes

FAR = 1 << 29  # a place that is near to no other


class Near(Protocol):
    """Base class of the masks within a round."""

    def before(self, r: int, rows: slice) -> Tensor | None:
        """The round whose last chunk precedes the first chunk of this round, by its orders (g, n); None: no round
        does."""
        ...

    def apart(self, r: int, rows: slice, items: Tensor, seen: Tensor, gone: Tensor) -> Tensor:
        """(g, c, m), (g, c, w), bool (g, c, w) -> bool (g, c, m, w), True where a query does not look at a key: it is
        gone, it is the query itself, it may not be seen, or it was seen in an earlier round."""
        ...

    def times(self, r: int, rows: slice, items: Tensor, seen: Tensor) -> Tensor:
        """(g, c, m), (g, c, w) -> (g, c, m, w): how often each of any two meets the other in this round"""
        ...


@dataclass(frozen=True, eq=False)
class HashPlan:
    """The order of positions in every round, padding last; the number of real positions; and the mask."""

    order: Tensor  # (r, g, n): the item at each place
    rank: Tensor  # (r, g, n): the place of each item
    real: Tensor  # (g, 1): how many positions are no padding
    chunk: int
    near: Near


@dataclass(frozen=True, eq=False)
class Ring:
    """The paper's chunks, each attending to itself and to the previous one; the last chunk precedes the first.

    With ``once`` a key counts once, in the first round that meets it. Otherwise it counts as often as it is met, and
    all rounds are one ring, as in the authors' code.
    """

    order: Tensor  # (r, g, n)
    own: Tensor  # (r, g, n): the chunk of each item
    previous: Tensor  # (r, g, n): the chunk before that
    codes: Tensor | None  # (r, g, n): its bucket, if pairs of different buckets are apart
    causal: bool
    once: bool

    def before(self, r: int, rows: slice) -> Tensor | None:
        return self.order[r if self.once else r - 1, rows]

    def apart(self, r: int, rows: slice, items: Tensor, seen: Tensor, gone: Tensor) -> Tensor:
        i, j = items.unsqueeze(-1), seen.masked_fill(gone, FAR).unsqueeze(-2)
        found = j >= i if self.causal else (j == i) | (j == FAR)
        if self.codes is not None:
            found |= ~self.alike(r, rows, items, seen)
        for earlier in range(r) if self.once else ():
            found |= self.met(earlier, rows, items, seen)
        return found

    def met(self, r: int, rows: slice, items: Tensor, seen: Tensor) -> Tensor:
        own, previous = (of(x[r, rows], items).unsqueeze(-1) for x in (self.own, self.previous))
        there = of(self.own[r, rows], seen).unsqueeze(-2)
        found = (there == own) | (there == previous)
        return found if self.codes is None else found & self.alike(r, rows, items, seen)

    def times(self, r: int, rows: slice, items: Tensor, seen: Tensor) -> Tensor:
        if self.once:
            return self.met(r, rows, items, seen).int()
        own, previous = (of(x[r, rows], items).unsqueeze(-1) for x in (self.own, self.previous))
        there, line = (of(self.own[i, rows], seen).unsqueeze(-2) for i in (r, r - 1))
        found = (there == own).int() + (torch.where(own == 0, line, there) == previous)
        return found if self.codes is None else found * self.alike(r, rows, items, seen)

    def alike(self, r: int, rows: slice, items: Tensor, seen: Tensor) -> Tensor:
        assert self.codes is not None
        codes = self.codes[r, rows]
        return of(codes, items).unsqueeze(-1) == of(codes, seen).unsqueeze(-2)


@dataclass(frozen=True, eq=False)
class BucketBand:
    """Each query attends to the last ``width`` earlier keys of its bucket, so that no query depends on later positions.

    Within a bucket the order is that of the text. Buckets stand more than a width apart, so one number tells both
    the bucket and the place in it.
    """

    place: Tensor  # (r, g, n)
    width: int
    once: bool

    def before(self, r: int, rows: slice) -> Tensor | None:
        return None

    def apart(self, r: int, rows: slice, items: Tensor, seen: Tensor, gone: Tensor) -> Tensor:
        found = self.beyond(of(self.place[r, rows], items), of(self.place[r, rows], seen).masked_fill(gone, FAR))
        for earlier in range(r) if self.once else ():
            place = self.place[earlier, rows]
            found |= ~self.beyond(of(place, items), of(place, seen))
        return found

    def times(self, r: int, rows: slice, items: Tensor, seen: Tensor) -> Tensor:
        place = self.place[r, rows]
        return (~self.beyond(of(place, items), of(place, seen))).int()

    def beyond(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Not 1 <= query - key <= width, in one comparison."""
        middle = (2 * queries - self.width - 1).unsqueeze(-1)
        return (middle - (2 * keys).unsqueeze(-2)).abs_() >= self.width


def of(x: Tensor, items: Tensor) -> Tensor:
    """What is known of each item.  (g, n), (g, ...) -> (g, ...)"""
    return x.gather(1, items.flatten(1).long()).view_as(items)


@dataclass(frozen=True, eq=False)
class Round:
    """One round of some rows: the queries and the keys of each chunk."""

    items: Tensor  # (g, c, m)
    seen: Tensor  # (g, c, w)
    gone: Tensor  # bool (g, c, w): padding, or nobody at all
    rank: Tensor  # (g, n)


def one_round(plan: HashPlan, r: int, rows: slice) -> Round:
    order, m = plan.order[r, rows], plan.chunk
    n = order.shape[1]
    count = -(-n // m)
    items = F.pad(order, (0, count * m - n)).unflatten(1, (count, m))
    places = torch.arange(count * m, device=order.device, dtype=order.dtype).view(1, count, m).expand_as(items)
    real, seen = plan.real[rows].unsqueeze(-1), items
    if count > 1:
        line, filled = plan.near.before(r, rows), -(-plan.real[rows] // m)
        last = (filled.clamp(min=1) - 1) * m + places[:, 0]
        # Where one chunk holds all that is real, it does not stand before itself.
        last = last.masked_fill(filled <= 1, FAR) if line is not None else torch.full_like(last, FAR)
        first = items[:, 0] if line is None else of(line, last.clamp(max=n - 1))
        seen = torch.cat((torch.cat((first.unsqueeze(1), items[:, :-1]), 1), items), -1)
        places = torch.cat((torch.cat((last.unsqueeze(1), places[:, :-1]), 1), places), -1)
    return Round(items, seen, places >= real, plan.rank[r, rows])


def in_rounds(q: Tensor, k: Tensor, v: Tensor, plan: HashPlan, dropout: float = 0.0) -> Tensor:
    """(g, n, e), (g, n, e), (g, n, f) -> (g, n, f)"""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return ordinary(q, k, v, plan, dropout)
    if any(unpack_dual(x).tangent is not None for x in (q, k, v)):
        return ordinary(q, k, v, plan, dropout)
    with as_given(q):
        return Rounds.apply(q, k.to(q.dtype), v.to(q.dtype), plan, dropout)  # type: ignore[no-untyped-call]


def as_given(x: Tensor) -> AbstractContextManager[Any]:
    """Within, nothing is rounded to another precision than it has."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def ordinary(q: Tensor, k: Tensor, v: Tensor, plan: HashPlan, dropout: float) -> Tensor:
    """The same, every step of it known to autograd: all blocks are kept."""
    rows, found, sums, own = slice(0, len(q)), [], [], owned(v, plan, dropout)
    for r in range(len(plan.order)):
        here = one_round(plan, r, rows)
        bias = forbidden(plan.near.apart(r, rows, here.items, here.seen, here.gone), q.dtype)
        scores = take(q, here.items) @ take(k, here.seen).mT + bias
        total = scores.logsumexp(-1, keepdim=True)
        weights = (scores - total).exp()
        y = (dropped(weights, dropout) if dropout else weights) @ take(v, here.seen)
        found.append(take(y.flatten(1, 2), here.rank))
        sums.append(take(total.flatten(1, 2), here.rank))
    all_found, all_sums = torch.stack(found), torch.stack(sums)
    y = (all_sums.softmax(0) * all_found).sum(0)
    return torch.where(nobody(all_sums.logsumexp(0), v.dtype), own * v, y)


def owned(v: Tensor, plan: HashPlan, dropout: float) -> Tensor:
    """The weight of each position at itself if it has no other key; 0 at padding. -> (g, n, 1)"""
    weights = (plan.rank[0] < plan.real).unsqueeze(-1).to(v.dtype)
    return dropped(weights, dropout) if dropout else weights


def nobody(total: Tensor, dtype: torch.dtype) -> Tensor:
    return total < -limit(dtype) / 2


def limit(dtype: torch.dtype) -> float:
    return min(1e9, torch.finfo(dtype).max / 2)


def forbidden(apart: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores. It is finite, so that a block of which nothing may be seen gives no NaN."""
    return apart.to(dtype).mul_(-limit(dtype))


def take(x: Tensor, items: Tensor) -> Tensor:
    """(g, n, e), (g, ...) -> (g, ..., e)"""
    g, n, e = x.shape
    first = torch.arange(0, g * n, n, device=x.device).view(-1, *[1] * (items.ndim - 1))
    return x.reshape(-1, e).index_select(0, (items + first).flatten()).view(*items.shape, e)


@dataclass(frozen=True, eq=False)
class Heads:
    q: Tensor  # (g, n, e)
    k: Tensor  # (g, n, e)
    v: Tensor  # (g, n, f)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was found in all rounds, the logarithm of all that was met, and the gradient of what was found."""

    y: Tensor  # (g, n, f)
    total: Tensor  # (g, n)
    slope: Tensor  # (g, n, f)


class Rounds(torch.autograd.Function):
    """Autograd function over some rows and chunks at a time, so that few scores are in memory at once."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: HashPlan, dropout: float) -> Tensor:
        ctx.plan, ctx.dropout, ctx.moment = plan, dropout, Moment(q) if dropout else None
        own, precise = owned(v, plan, dropout), torch.promote_types(q.dtype, torch.float32)
        y, total = torch.empty_like(v), v.new_empty(v.shape[:-1], dtype=precise)
        for rows in some_rows(plan):
            y[rows], total[rows] = forth(Heads(q[rows], k[rows], v[rows]), plan, rows, dropout)
        y = torch.where(nobody(total, q.dtype).unsqueeze(-1), own * v, y)
        ctx.save_for_backward(q, k, v, y, total)
        return y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, y, total = ctx.saved_tensors
        plan, dropout = ctx.plan, ctx.dropout
        again: AbstractContextManager[None] = nullcontext() if ctx.moment is None else ctx.moment.again()
        with again:
            if torch.is_grad_enabled():  # create_graph=True
                if dropout:
                    raise RuntimeError("LSH attention with dropout does not support second derivatives")
                views = [x.view_as(x) for x in (q, k, v)]
                found = ordinary(views[0], views[1], views[2], plan, 0.0)
                return *slopes(found, views, slope, twice=True), None, None
            own, lonely = owned(v, plan, dropout), nobody(total, q.dtype).unsqueeze(-1)
            dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), (slope * own).masked_fill(~lonely, 0.0)
            slope = slope.masked_fill(lonely, 0.0)
            total = total.masked_fill(lonely.squeeze(-1), torch.inf)  # no block has a share in it
            for rows in some_rows(plan):
                outcome = Outcome(y[rows], total[rows], slope[rows])
                sums = Heads(dq[rows], dk[rows], dv[rows])
                back(Heads(q[rows], k[rows], v[rows]), outcome, plan, rows, dropout, sums)
        return dq, dk, dv, None, None


def some_rows(plan: HashPlan) -> Iterator[slice]:
    _, g, n = plan.order.shape
    step = max(attention.DENSE // (2 * n * plan.chunk), 1)
    return (slice(top, min(top + step, g)) for top in range(0, g, step))


def pieces(here: Round) -> Iterator[tuple[slice, slice]]:
    """Some chunks at a time; of a chunk that has too many scores by itself, some of its queries."""
    g, c, m = here.items.shape
    w = here.seen.shape[-1]
    chunks, queries = max(attention.DENSE // (g * m * w), 1), max(min(attention.DENSE // w, m), 1)
    for top in range(0, c, chunks):
        for start in range(0, m, queries):
            yield slice(top, min(top + chunks, c)), slice(start, min(start + queries, m))


def forth(heads: Heads, plan: HashPlan, rows: slice, dropout: float) -> tuple[Tensor, Tensor]:
    """All rounds of some rows.  -> (g, n, f) and (g, n): what was found, and the logarithm of all that was met"""
    q, k, v = heads.q, heads.k, heads.v
    precise = torch.promote_types(q.dtype, torch.float32)
    found, total = v.new_zeros(v.shape, dtype=precise), v.new_full(v.shape[:-1], -torch.inf, dtype=precise)
    for r in range(len(plan.order)):
        here = one_round(plan, r, rows)
        y = v.new_empty(*here.items.shape, v.shape[-1])
        sums = v.new_empty(here.items.shape, dtype=precise)
        for chunks, queries in pieces(here):
            items, seen = here.items[:, chunks, queries], here.seen[:, chunks]
            bias = forbidden(plan.near.apart(r, rows, items, seen, here.gone[:, chunks]), q.dtype)
            part = of_chunks(Heads(take(q, items), take(k, seen), take(v, seen)), bias, dropout)
            y[:, chunks, queries], sums[:, chunks, queries] = part
        y, sums = take(y.flatten(1, 2), here.rank), of(sums.flatten(1, 2), here.rank)
        both = torch.logaddexp(total, sums)
        share = (sums - both).exp_().unsqueeze(-1)
        found = found.mul_((total - both).exp_().unsqueeze(-1)).addcmul_(y.to(precise), share)
        total = both
    return found, total


def back(heads: Heads, outcome: Outcome, plan: HashPlan, rows: slice, dropout: float, sums: Heads) -> None:
    """Add the gradients of all rounds of some rows to ``sums``."""
    q, k, v, m = heads.q, heads.k, heads.v, plan.chunk
    for r in range(len(plan.order)):
        here = one_round(plan, r, rows)
        dq = q.new_empty(*here.items.shape, q.shape[-1])
        dk, dv = (x.new_zeros(*here.seen.shape, x.shape[-1]) for x in (k, v))
        places = torch.arange(here.items[0].numel(), device=q.device).view(here.items.shape[1:])
        empty = places >= here.rank.shape[1]  # nobody asks from there
        for chunks, queries in pieces(here):
            items, seen = here.items[:, chunks, queries], here.seen[:, chunks]
            bias = forbidden(plan.near.apart(r, rows, items, seen, here.gone[:, chunks]), q.dtype)
            total = of(outcome.total, items).masked_fill(empty[chunks, queries], torch.inf)
            told = Outcome(take(outcome.y, items), total, take(outcome.slope, items))
            part = slopes_of_chunks(Heads(take(q, items), take(k, seen), take(v, seen)), told, bias, dropout)
            dq[:, chunks, queries] = part.q
            dk[:, chunks] += part.k
            dv[:, chunks] += part.v
        sums.q.add_(take(dq.flatten(1, 2), here.rank))
        for x, of_all in ((dk, sums.k), (dv, sums.v)):
            own = x[:, :, -m:]
            if x.shape[2] > m:  # the other half is of the chunk before
                own[:, :-1] += x[:, 1:, :m]
                first = here.seen[:, 0, :m].long().unsqueeze(-1).expand(-1, -1, x.shape[-1])
                of_all.scatter_add_(1, first, x[:, 0, :m])
            of_all.add_(take(own.flatten(1, 2), here.rank))


def of_chunks(heads: Heads, bias: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """Softmax attention within each chunk, and the logarithm of what it divides by.

    (g, c, m, e), (g, c, w, e), (g, c, w, f), (g, c, m, w) -> (g, c, m, f), (g, c, m)
    The fused kernel for processors gives both; on other devices, and with dropout, it is written out.
    """
    q, k, v = heads.q, heads.k, heads.v
    if fusible(heads, dropout):
        y, total = FUSED(alone(q), alone(k), alone(v), attn_mask=alone(bias), scale=1.0)
        return y.view(*q.shape[:-1], -1), total.view(q.shape[:-1])
    scores = add_product(bias, q, k)
    total = scores.logsumexp(-1, keepdim=True)
    weights = (scores - total).exp_().to(v.dtype)
    return (dropped(weights, dropout) if dropout else weights) @ v, total.squeeze(-1)


def slopes_of_chunks(heads: Heads, outcome: Outcome, bias: Tensor, dropout: float) -> Heads:
    """The gradients by q, k and v; the outcome is that of all that was met, here and elsewhere."""
    q, k, v, slope = heads.q, heads.k, heads.v, outcome.slope
    if fusible(heads, dropout):
        given = [alone(x) for x in (slope, q, k, v, outcome.y, outcome.total)]
        found = FUSED_SLOPES(*given, 0.0, False, attn_mask=alone(bias), scale=1.0)
        dq, dk, dv = (x.squeeze(1).unflatten(0, q.shape[:2]) for x in found)
        return Heads(dq, dk, dv)
    weights = (add_product(bias, q, k) - outcome.total.unsqueeze(-1)).exp_().to(q.dtype)
    kept = dropped(torch.ones_like(weights), dropout) if dropout else None
    dv = (weights if kept is None else weights * kept).mT @ slope
    inner = slope @ v.mT if kept is None else (slope @ v.mT) * kept
    scores = weights * (inner - (slope * outcome.y).sum(-1, keepdim=True))
    return Heads(scores @ k, scores.mT @ q, dv)


def alone(x: Tensor) -> Tensor:
    """(g, c, ...) -> (g * c, 1, ...): each chunk is a batch of one head"""
    return x.flatten(0, 1).unsqueeze(1)


def add_product(bias: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """In float32 at least.  (..., m, w), (..., m, e), (..., w, e) -> (..., m, w)"""
    return (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) + bias


def fusible(heads: Heads, dropout: float) -> bool:
    return heads.q.device.type == "cpu" and not dropout and heads.q.shape[-1] == heads.v.shape[-1]


FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FUSED_SLOPES = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
