"""Attention maps by name: what a model looked at, with the meaning of both axes.

What mixes positions without weights (a Fourier transform, an MLP over positions, a workspace as a whole) has a map too:
how much each output moves when an input does. It is told apart by its kind.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.axis import Axis, AxisCut
from regard.nn.tap import Tap, capture, plain_name

from .short_repr import BriefRepr

T = TypeVar("T")
Kind = Literal["weights", "influence"]
MAP_KINDS: tuple[Kind, ...] = ("weights", "influence")


@dataclass(frozen=True, eq=False, repr=False)
class Map(BriefRepr):
    """weights[b, h, i, j]: the attention weight of query i (row) on key j (column), in head h; for the kind
    "influence", the norm of dy_i/dx_j, whose rows do not sum to 1."""

    name: str
    weights: Tensor
    rows: Axis
    columns: Axis
    kind: Kind = "weights"


@dataclass(frozen=True, eq=False, repr=False)
class Looked(BriefRepr, Generic[T]):
    """An output and the recorded attention maps; for a layer that ran several times, every call in order."""

    output: T
    calls: dict[str, list[Map]]

    @property
    def maps(self) -> dict[str, Map]:
        """The map of the last call of each layer."""
        return {name: calls[-1] for name, calls in self.calls.items()}


def look_at(
    net: nn.Module,
    pattern: str,
    run: Callable[[], T],
    *,
    table: Mapping[str, tuple[str, str]],
    axes: Mapping[str, Axis],
    grad: bool = False,
) -> Looked[T]:
    """Run and record the maps of all matching attentions; all others stay on their fast path."""
    wanted = matching_taps(net, pattern)
    with ExitStack() as listening:
        heard = [listening.enter_context(capture(net, tap, grad=grad)) for tap in wanted]
        output = run()
    calls = {
        attention_name(tap): map_of_records(attention_name(tap), records, wanted[tap], table=table, axes=axes)
        for seen in heard
        for tap, records in seen.items()
    }
    return Looked(output, calls)


def map_of_records(
    name: str, records: list[Tensor], kind: Kind, *, table: Mapping[str, tuple[str, str]], axes: Mapping[str, Axis]
) -> list[Map]:
    """What passed at one attention, call by call, with the meaning of its axes."""
    rows, columns = axes_of(name, table)
    along = axes.get(rows)
    count = along.cut.count if along is not None and isinstance(along.cut, AxisCut) else 1
    return [
        Map(
            name, x[i::count], fitted_axis(along, rows, x.shape[-2]),
            fitted_axis(axes.get(columns), columns, x.shape[-1]), kind,
        )
        for x in joined_calls(records, along)
        for i in range(count)
    ]  # fmt: skip


def matching_taps(net: nn.Module, pattern: str) -> dict[str, Kind]:
    """The taps of the attentions that a pattern names, and what each tells; at least one."""
    taps = [plain_name(name) for name, module in net.named_modules() if isinstance(module, Tap)]
    names = {tap: kind for tap in taps for kind in MAP_KINDS if tap.endswith(f".{kind}")}
    wanted = {tap: kind for tap, kind in names.items() if fnmatchcase(tap, f"{pattern}.{kind}")}
    if not wanted:
        what = "no attention of this model matches this name" if names else "this model has no attention layers"
        raise InputError(what, got=pattern, expected=", ".join(attention_name(tap) for tap in names))
    return wanted


def side_by_side(maps: Sequence[Map]) -> Map:
    """Maps of one layer for several inputs as one: each looked at its own columns alone."""
    if len(maps) == 1:
        return maps[0]
    b, h = maps[0].weights.shape[:2]
    weights = maps[0].weights.new_zeros(b, h, sum(x.rows.size for x in maps), sum(x.columns.size for x in maps))
    row = column = 0
    for one in maps:
        weights[:, :, row : row + one.rows.size, column : column + one.columns.size] = one.weights
        row, column = row + one.rows.size, column + one.columns.size
    return replace(
        maps[0], weights=weights, rows=chain([x.rows for x in maps]), columns=chain([x.columns for x in maps])
    )


def chain(axes: Sequence[Axis]) -> Axis:
    labels = [label for axis in axes for label in axis.labels or ()]
    size = sum(axis.size for axis in axes)
    return Axis(axes[0].kind, size, labels=tuple(labels) if len(labels) == size else None)


def attention_name(tap: str) -> str:
    """The name of the attention that a tap belongs to."""
    return tap.rpartition(".")[0]


def joined_calls(records: list[Tensor], rows: Axis | None) -> list[Tensor]:
    """One map, where a recurrent decoder has looked once for each of its words."""
    return [torch.cat(records, -2)] if one_by_one([x.shape for x in records], rows) else records


def one_by_one(shapes: Sequence[torch.Size], rows: Axis | None) -> bool:
    """Whether these are looks of one row each, as many as there are rows."""
    several = rows is not None and len(shapes) == rows.size > 1
    return several and len(set(shapes)) == 1 and shapes[0][-2] == 1


def axes_of(name: str, table: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """The names of a map's axes, from the model file's AXES; "{layer}" stands for the map's own name, where every
    layer has axes of its own."""
    for pattern, (rows, columns) in table.items():
        if fnmatchcase(name, pattern):
            return rows.replace("{layer}", name), columns.replace("{layer}", name)
    whole, _, part = name.rpartition(".")
    if part in ("write", "broadcast"):  # of a workspace, whose slots are neither
        rows, columns = axes_of(whole, table)
        return ("slots", columns) if part == "write" else (rows, "slots")
    return "rows", "columns"


def fitted_axis(axis: Axis | None, name: str, size: int) -> Axis:
    """The axis, if it has as many positions as the map; a decoding step has fewer, and then only the name is known."""
    return axis if axis is not None and axis.size == size else Axis(name, size)
