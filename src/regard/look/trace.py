"""A trace: one pass of a net, of which every map can be had, and none is made unless it is asked for.

The pass runs on the fast path. Of each attention its queries, keys and values are kept, with the mask and the bias, and
``kernel.weights``, the definition of its map, is computed from them when someone looks: 2,048 tokens in 12 x 12 heads
are 0.2 GB of vectors, where all maps at once would be 2.4 GB. What has no such kernel (outlook attention, a Fourier
transform ...) is kept as the map that it had, and so is an attention whose weights were changed, beside its vectors.

Shapes: b batch, h heads, g groups of heads, q rows, k columns, e width of a head, f width of its values.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.attention import Kernel, MultiHeadAttention, Softmax, repeat_heads
from regard.nn.axis import Axis, AxisCut, WindowCut
from regard.nn.mask import ALL, Bias, Mask
from regard.nn.tap import TapCallback, in_backward, listen, listeners_here, plain_name

from .answers import Answer
from .changes import Change, apply_changes
from .examples import Example
from .maps import Kind, Map, attention_name, axes_of, fitted_axis, matching_taps, one_by_one
from .short_repr import BriefRepr
from .windows import indices

T = TypeVar("T")

ROOM = 1 << 29  # bytes of maps that are kept once they were computed


@dataclass(frozen=True, eq=False)
class Call:
    """One call of an attention, from which all that it did can be computed again."""

    kernel: Kernel
    q: Tensor  # (b, h, q, e)
    k: Tensor  # (b, g, k, e)
    v: Tensor  # (b, g, k, f)
    mask: Mask = ALL
    bias: Bias | None = None

    def weights(self) -> Tensor:
        """-> (b, h, q, k)"""
        with torch.inference_mode():
            return self.kernel.weights(self.q, self.k, self.mask, self.bias)

    def tile(self, rows: slice) -> Tensor:
        """Some rows of the map alone, where each is computed for itself.  -> (b, h, rows, k)"""
        if type(self.kernel) is not Softmax:
            return self.weights()[..., rows, :]
        columns = self.k.shape[-2]
        bias = None if self.bias is None else self.bias.tile(rows, columns)
        with torch.inference_mode():
            return self.kernel.weights(self.q[..., rows, :], self.k, self.mask.tile(rows, columns), bias)

    def part(self, rows: slice) -> "Call":
        """The same for some of its batch."""
        count = len(self.q)
        mask = self.mask
        start = mask.start if isinstance(mask.start, int) else of_batch(mask.start, 1, count, rows)
        keys, pairs = (
            None if x is None else of_batch(x, axes, count, rows) for x, axes in ((mask.keys, 2), (mask.pairs, 4))
        )
        bias = None if self.bias is None else BatchBias(self.bias, count, rows)
        return Call(
            self.kernel, self.q[rows], self.k[rows], self.v[rows], Mask(mask.causal, start, keys, pairs), bias
        )  # fmt: skip

    @property
    def shape(self) -> torch.Size:
        """of its map"""
        return torch.Size((*self.q.shape[:-1], self.k.shape[-2]))

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in (self.q, self.k, self.v))


@dataclass(frozen=True, eq=False)
class BatchBias:
    """A bias for some of a batch."""

    bias: Bias
    count: int  # of the whole batch
    rows: slice

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        return of_batch(self.bias.dense(rows, columns, device), 4, self.count, self.rows)

    def tile(self, rows: slice, columns: int) -> "BatchBias":
        return BatchBias(self.bias.tile(rows, columns), self.count, self.rows)


def of_batch(x: Tensor, axes: int, count: int, rows: slice) -> Tensor:
    """Some rows of what has one for each of a batch; what serves all stays as it is."""
    return x[rows] if x.ndim == axes and len(x) == count else x


@dataclass(frozen=True, eq=False)
class Finished:
    """A map that was kept as it was."""

    map: Tensor

    def part(self, rows: slice) -> "Finished":
        return Finished(self.map[rows])

    def weights(self) -> Tensor:
        return self.map

    def tile(self, rows: slice) -> Tensor:
        return self.map[..., rows, :]

    @property
    def shape(self) -> torch.Size:
        return self.map.shape

    @property
    def bytes(self) -> int:
        return self.map.nbytes


@dataclass(frozen=True, eq=False)
class Changed(Finished):
    """A map whose weights were changed, and the call that would have had others."""

    call: Call

    def part(self, rows: slice) -> "Changed":
        return Changed(self.map[rows], self.call.part(rows))

    @property
    def bytes(self) -> int:
        return self.map.nbytes + self.call.bytes


Record = Call | Finished


@dataclass(frozen=True, eq=False, repr=False)
class TracedSite(BriefRepr):
    """A module that mixes positions and its recorded calls, in order. One that ran along an axis for each position of
    another, ``over``, has a call for each of these."""

    name: str
    kind: Kind
    axes: tuple[str, str]  # the model's words for rows and columns
    rows: Axis
    columns: Axis
    records: tuple[Record, ...]
    over: Axis | None = None

    @property
    def heads(self) -> int:
        return self.records[-1].shape[-3]

    @property
    def arithmetic(self) -> bool:
        """Whether weights are softmax(q · k * scale + bias), so that ``cell`` can show their computation."""
        return isinstance(call_of(self.records[-1], self.rows), Call)

    def map(self, call: int = -1) -> Map:
        """(b, h, q, k)"""
        return Map(self.name, self.records[call].weights(), self.rows, self.columns, self.kind)

    def cell(self, head: int, row: int, column: int) -> "Cell":
        """The computation of one weight: query, key, scores, softmax and value."""
        record = self.records[-1]
        call = call_of(record, self.rows)
        if call is None:
            raise InputError("cell needs plain softmax attention, softmax(q · k * scale)", where=self.name)
        cut = self.rows.windows
        rows, columns = call.shape[-2:] if cut is None else 2 * (cut.grid[0] * cut.grid[1],)
        for what, got, size in (("head", head, call.shape[-3]), ("row", row, rows), ("column", column, columns)):
            if not 0 <= got < size:
                raise InputError(
                    f"{what} index out of range", where=self.name, got=str(got), expected=f"0 to {size - 1}"
                )
        if cut is not None:
            return in_windows(call, cut, head, row, column)
        one = taken_apart(call, head, row, column)
        return reweighted(one, record, call, head, row, column) if isinstance(record, Changed) else one


def call_of(record: Record, rows: Axis) -> Call | None:
    """The call whose weights can be taken apart: one of plain attention, and not of windows that were changed."""
    call = record.call if isinstance(record, Changed) and rows.windows is None else record
    return call if isinstance(call, Call) and type(call.kernel) is Softmax else None


def reweighted(one: "Cell", record: Changed, call: Call, head: int, row: int, column: int) -> "Cell":
    """What was crossed out is hidden; all else has the scores that it had, of which other weights were made."""
    weights = record.map[0, head, row]
    out = (weights == 0) & (one.weights > 0)
    values = repeat_heads(call.v, call.shape[-3])[0, head]
    return replace(
        one, seen=one.seen and not bool(out[column]), scores=one.scores.masked_fill(out, -torch.inf), weights=weights,
        mixed=weights @ values,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Cell:
    """The computation of one weight of one head: score = q · k * scale + bias, weight = exp(score) over the sum of its
    row."""

    query: Tensor  # (e,)
    key: Tensor  # (e,)
    value: Tensor  # (f,)
    product: float
    scale: float
    bias: float
    score: float
    seen: bool  # False where a mask hides this column from this row
    scores: Tensor  # (k,), the whole row; -inf where a mask hides a column
    weights: Tensor  # (k,)
    mixed: Tensor  # (f,): what the head brings for this row


def taken_apart(call: Call, head: int, row: int, column: int, example: int = 0) -> Cell:
    """Of one input of a batch."""
    kernel = call.kernel
    assert isinstance(kernel, Softmax)
    rows, columns = call.shape[-2:]
    q, k, v = (repeat_heads(x, call.shape[-3])[example, head] for x in (call.q, call.k, call.v))
    allowed = call.mask.dense(rows, columns, q.device)
    added = None if call.bias is None else call.bias.dense(rows, columns, q.device).detach()
    seen = torch.ones(columns, dtype=torch.bool) if allowed is None else of_head(allowed, example, head, row)
    bias = q.new_zeros(columns) if added is None else of_head(added, example, head, row)
    scale = kernel.factor(call.q)
    scores = (k @ q[row] * scale + bias).masked_fill(~seen, -torch.inf)
    weights = scores.softmax(-1) if bool(seen.any()) else torch.zeros_like(scores)
    return Cell(
        q[row], k[column], v[column], float(q[row] @ k[column]), scale, float(bias[column]),
        float(q[row] @ k[column] * scale + bias[column]), bool(seen[column]), scores, weights, weights @ v,
    )  # fmt: skip


def in_windows(call: Call, cut: WindowCut, head: int, row: int, column: int) -> Cell:
    """Rows and columns are those of the whole grid; what lies in another window is hidden, and has no bias."""
    (window, inside), (other, there) = cut.where(row), cut.where(column)
    one = taken_apart(call, head, inside, there if window == other else inside, window)
    (real, whole), size = indices(cut)[window], cut.grid[0] * cut.grid[1]
    one = replace(
        one,
        scores=one.scores.new_full((size,), -torch.inf).index_copy(0, whole, one.scores[real]),
        weights=one.weights.new_zeros(size).index_copy(0, whole, one.weights[real]),
    )
    if window == other:
        return one
    key, value = (repeat_heads(x, call.shape[-3])[other, head, there] for x in (call.k, call.v))
    product = float(one.query @ key)
    return replace(
        one, key=key, value=value, product=product, bias=0.0, score=product * one.scale, seen=False
    )  # fmt: skip


def of_head(x: Tensor, example: int, head: int, row: int) -> Tensor:
    """One row of what is spread over a batch and its heads.  (..., q, k), fewer axes or sizes of 1 -> (k,)"""
    while x.ndim > 4:
        x = x[0]
    for i in (example, head, row)[4 - x.ndim :]:
        x = x[i if x.shape[0] > 1 else 0]
    return x


class LazyMaps(Mapping[str, Map]):
    """Maps by name, each computed when it is first asked for; the latest are kept, as long as there is room."""

    def __init__(self, sites: Mapping[str, TracedSite]) -> None:
        self.sites = sites
        self.kept: OrderedDict[str, Map] = OrderedDict()

    def __getitem__(self, name: str) -> Map:
        if name not in self.kept:
            self.kept[name] = self.sites[name].map()
        self.kept.move_to_end(name)
        while len(self.kept) > 1 and sum(one.weights.nbytes for one in self.kept.values()) > ROOM:
            self.kept.popitem(last=False)
        return self.kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)


@dataclass(frozen=True, eq=False, repr=False)
class Trace(BriefRepr, Generic[T]):
    """A recorded forward pass. ``example`` is the input, if a model prepared it; ``answer`` is the model's answer."""

    output: T
    sites: dict[str, TracedSite]  # in the order in which they ran
    net: nn.Module
    table: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # the model file's AXES
    changes: tuple[Change, ...] = ()
    example: Example | None = None
    answer: Answer | None = None
    model: str = ""  # the name under which it ships
    again: Callable[[Sequence[Change]], "Trace[T]"] | None = None
    maps: LazyMaps = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", LazyMaps(self.sites))

    @property
    def calls(self) -> dict[str, list[Map]]:
        """The maps of all calls, in order, for layers that ran several times."""
        return {name: [site.map(i) for i in range(len(site.records))] for name, site in self.sites.items()}

    def change(self, *changes: Change) -> "Trace[T]":
        """Run the same input again with additional changes: a masked token, a head switched off, a temperature."""
        if self.again is None:
            raise InputError("changes need a trace from model.look")
        return self.again((*self.changes, *changes))

    def ask(
        self,
        name: str,
        *,
        site: str | None = None,
        head: int | None = None,
        row: int | None = None,
        patch: int | None = None,
    ) -> dict[str, Any]:
        """Run an analysis by name (``look.analyses``): rollout, flow, distance, spectrum, occlusion, gradient,
        importance, lens. The result includes its equation and what it does not show. ``row`` is the output position of
        a flow, or a detector's query to explain; by default that with the highest score."""
        from .analyses import AnalysisRequest, run_analysis

        return run_analysis(self, name, AnalysisRequest(site, head, row, patch))

    def show(self) -> Any:
        """Show the view of ``regard serve`` as a widget in a notebook."""
        from .notebook import widget

        return widget(self)

    def save(self, path: str | Path, site: str | None = None, head: int | None = None) -> Path:
        """Save to a file: .html, an interactive page; .png or .svg, all sites, or one head or the mean of heads of a
        site; .npz, the numbers."""
        from .saving import saved

        return saved(self, path, site, head)

    @property
    def axes(self) -> dict[str, Axis]:
        return {
            name: axis
            for site in self.sites.values()
            for name, axis in zip(site.axes, (site.rows, site.columns), strict=True)
        }

    @property
    def bytes(self) -> int:
        """Memory of the recorded tensors in bytes, before any analysis."""
        return sum(record.bytes for site in self.sites.values() for record in site.records)


def record_run(
    net: nn.Module,
    pattern: str,
    run: Callable[[], T],
    *,
    table: Mapping[str, tuple[str, str]],
    axes: Mapping[str, Axis],
    changes: Sequence[Change] = (),
) -> Trace[T]:
    """Run, with these changes, and keep what the matching attentions did."""
    with apply_changes(net, changes, table, axes), recording(net, matching_taps(net, pattern)) as found:
        output = run()
    sites = {name: site_of(name, kind, records, table, axes) for name, (kind, records) in found.items()}
    return Trace(output, sites, net, table, tuple(changes))


Found = dict[str, tuple[Kind, list[Record]]]


@contextmanager
def recording(net: nn.Module, wanted: Mapping[str, Kind]) -> Iterator[Found]:
    """What the attentions do while it lasts; weights that are formed anyway, since someone hears them, are kept too."""
    found: Found = {}
    modules = {plain_name(name): module for name, module in net.named_modules()}

    def keep(name: str, kind: Kind, record: Record) -> None:
        found.setdefault(name, (kind, []))[1].append(record)

    with ExitStack() as listening:
        for tap, kind in wanted.items():
            name, owner = attention_name(tap), modules[attention_name(tap)]
            if not isinstance(owner, MultiHeadAttention):
                listening.enter_context(listen(net, tap, keeping(kind, keep), records=True))
                continue
            listening.enter_context(listen(net, f"{name}.queries", present := presence(), records=True))
            way = owner.explicit if owner.weights.live else owner.kernel
            hook = way.register_forward_pre_hook(remembering(name, owner, present, keep))
            listening.callback(hook.remove)
            if owner.weights.live:
                listening.enter_context(listen(net, tap, beside(found), records=True))
        yield found


Keep = Callable[[str, Kind, Record], None]


def presence() -> TapCallback:
    """A listener that only tells, by being there, that this thread records: hooks are called in every thread, and also
    in what is computed only for a look."""
    return lambda name, x: None


def remembering(
    name: str, owner: MultiHeadAttention, present: TapCallback, keep: Keep
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    """For a kernel, or its explicit way: what it is called with."""

    def called(_: nn.Module, given: tuple[Any, ...]) -> None:
        if in_backward() or not any(listener.hear is present for listener in listeners_here().get(owner.queries, ())):
            return
        q, k, v = (x.detach() for x in given[:3])
        keep(name, "weights", Call(owner.kernel, q, k, v, *given[3:5]))

    return called


def beside(found: Found) -> TapCallback:
    """For weights that someone else hears too, and may have changed: as they pass, beside the call that they are of."""

    def hear(tap: str, x: Tensor) -> None:
        _, records = found[attention_name(tap)]
        call = records.pop()
        assert isinstance(call, Call)
        records.append(Changed(x.detach(), call))

    return hear


def keeping(kind: Kind, keep: Keep) -> TapCallback:
    """For a tap: what passes."""

    def hear(tap: str, x: Tensor) -> None:
        keep(attention_name(tap), kind, Finished(x.detach()))

    return hear


def site_of(
    name: str, kind: Kind, records: list[Record], table: Mapping[str, tuple[str, str]], axes: Mapping[str, Axis]
) -> TracedSite:
    rows, columns = axes_of(name, table)
    rows = "written" if rows == "target" and "written" in axes else rows  # what a decoder wrote there, not was given
    along, over = axes.get(rows), None
    several = joined_records(records, along)
    if along is not None and isinstance(along.cut, AxisCut):
        count, over = along.cut.count, along.cut.over
        several = tuple(record.part(slice(i, None, count)) for record in several for i in range(count))
    shape = several[-1].shape
    return TracedSite(
        name, kind, (rows, columns), fitted_axis(along, rows, shape[-2]),
        fitted_axis(axes.get(columns), columns, shape[-1]), several, over,
    )  # fmt: skip


def joined_records(records: list[Record], rows: Axis | None) -> tuple[Record, ...]:
    """One call, where a recurrent decoder has looked once for each of its words."""
    if not one_by_one([x.shape for x in records], rows):
        return tuple(records)
    return (Finished(torch.cat([x.weights() for x in records], -2)),)
