"""Attention maps by name: what a model looked at, with the meaning of both axes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.axis import Axis
from regard.nn.tap import Tap, capture, plain

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Map:
    """weights[b, h, i, j]: how much position i of the rows looked at position j of the columns, in head h."""

    name: str
    weights: Tensor
    rows: Axis
    columns: Axis


@dataclass(frozen=True, eq=False)
class Looked(Generic[T]):
    """A result, and the maps that were asked for: of a layer that ran several times, every call in order."""

    output: T
    calls: dict[str, list[Map]]

    @property
    def maps(self) -> dict[str, Map]:
        """The last call of each."""
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
    """Run with the matching attentions recorded; all others stay on their fast path."""
    names = [
        plain(name) for name, module in net.named_modules() if isinstance(module, Tap) and name.endswith(".weights")
    ]
    if not any(fnmatchcase(name, f"{pattern}.weights") for name in names):
        raise InputError(
            "no attention of this model has such a name",
            got=pattern,
            expected=", ".join(name.removesuffix(".weights") for name in names),
        )
    with capture(net, f"{pattern}.weights", grad=grad) as seen:
        output = run()
    calls = {}
    for tap, records in seen.items():
        name = tap.removesuffix(".weights")
        rows, columns = axes_of(name, table)
        records = joined(records, axes.get(rows))
        calls[name] = [
            Map(name, x, fitted(axes.get(rows), rows, x.shape[-2]), fitted(axes.get(columns), columns, x.shape[-1]))
            for x in records
        ]
    return Looked(output, calls)


def joined(records: list[Tensor], rows: Axis | None) -> list[Tensor]:
    """One map, where a recurrent decoder has looked once for each of its words."""
    one_by_one = rows is not None and len(records) == rows.size and len({x.shape for x in records}) == 1
    return [torch.cat(records, -2)] if one_by_one and records[0].shape[-2] == 1 else records


def axes_of(name: str, table: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """The names of a map's axes, from the model file's AXES."""
    for pattern, axes in table.items():
        if fnmatchcase(name, pattern):
            return axes
    return "rows", "columns"


def fitted(axis: Axis | None, name: str, size: int) -> Axis:
    """The axis, if it has as many positions as the map; a decoding step has fewer, and then only the name is known."""
    return axis if axis is not None and axis.size == size else Axis(name, size)
