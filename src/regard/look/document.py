"""A trace as data: all that a page, a notebook or a file needs to show it, and not one number more than it asks for.

The document is JSON: model, input, answer, axes and sites. Where a net runs several times over its input, it has
``time``, {"unit", "count"}: a site that ran once in each of these moments is there once for each, with the moment's
number as its own ``time``. Without the key there is no time, in a document as in a site.

Maps come apart from it, as bytes: exact ones head by head (float32), thumbnails of all heads, and halved ones for what
is larger than a screen, in which the larger of each 2 x 2 weights stays, so that a lone strong one is never lost
(uint8, 255 times the square root).

Shapes: h heads, q rows, k columns.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.nn.attention import DENSE, Softmax
from regard.nn.axis import Axis

from . import distance, rollout, spectrum
from .answers import Answer, answer_data
from .changes import Change
from .examples import Example, TimeAxis
from .trace import Call, Changed, Trace, TracedSite, call_of
from .windows import joined_map, unwound

FORMAT = 1
SMALL = 64  # the longer side of a thumbnail
TALL = 64  # rows of a tile, of a map that is too large to stand in memory whole
WORDS = {  # of what a page computes from maps by itself
    name: {"equation": one.EQUATION, "limit": one.LIMIT}
    for name, one in (("rollout", rollout), ("distance", distance), ("spectrum", spectrum))
}
SEVERAL = "@"  # between the name of a site that ran several times and the number of the call


@dataclass(frozen=True)
class About:
    """The model that was looked at."""

    name: str
    family: str
    task: str | None
    parameters: int
    takes: str  # "text", "pair", "image", "image+text"
    title: str = ""  # for people; the name unless given
    source: str = ""  # "shipped", "run" or "zoo", where it has one of these names


def document_data(found: Trace[Any], about: About, before: Answer | None = None) -> dict[str, Any]:
    """``before`` is what the model answered without the changes."""
    axes: dict[str, dict[str, Any]] = {}
    time = example_of_trace(found).time
    rows = [
        site_data(name, call, found.sites[name], axes)
        | moment(found.sites[name], call, time)
        | position(found.sites[name], call)
        for name, call in sites(found)
    ]
    model = asdict(about) | {"title": about.title or about.name}
    given = {
        "model": model,
        "input": example_of_trace(found).record(),
        "changes": [change_data(x) for x in found.changes],
    }
    return {
        "format": FORMAT,
        "id": document_digest(given),
        **given,
        "answer": answer_data(found.answer),
        "before": answer_data(before) if found.changes else None,
        "axes": axes,
        "sites": rows,
        **({} if time is None else {"time": asdict(time)}),
    }


def moment(site: TracedSite, call: int, time: TimeAxis | None) -> dict[str, int]:
    """When a call was, of a site that ran once in each moment; of others nothing is told."""
    each = 1 if site.over is None else site.over.size
    return {} if time is None or len(site.records) != each * time.count else {"time": call // each}


def position(site: TracedSite, call: int) -> dict[str, Any]:
    """Of a site that ran along one axis for each position of another: which position of which axis this call is of."""
    if site.over is None:
        return {}
    number = call % site.over.size
    label = str(number) if site.over.labels is None else site.over.labels[number]
    return {"over": {"kind": site.over.kind, "number": number, "label": label}}


def example_of_trace(found: Trace[Any]) -> Example:
    if found.example is None:
        raise InputError("this trace has no example: use model.look")
    return found.example


def document_digest(given: Mapping[str, Any]) -> str:
    """The same for the same model, input and changes, so that an address can be kept."""
    return sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:20]


def sites(found: Trace[Any]) -> list[tuple[str, int]]:
    """Every call of every site."""
    return [(name, i) for name, site in found.sites.items() for i in range(len(site.records))]


def model_title(name: str, call: int, site: TracedSite) -> str:
    return name if len(site.records) == 1 else f"{name}{SEVERAL}{call}"


def find_site(found: Trace[Any], name: str) -> tuple[TracedSite, int]:
    """A site by its name in the document, and which of its calls."""
    plain, _, call = name.partition(SEVERAL)
    site = found.sites.get(plain)
    number = int(call) if call.isdecimal() and len(call) < 9 else 0
    if site is None or name != model_title(plain, number, site) or number >= len(site.records):
        raise InputError("unknown site", got=name[:100], expected=", ".join(list(found.sites)[:6]))
    return site, number


def site_data(name: str, call: int, site: TracedSite, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    record, (rows, columns) = site.records[call], site.axes
    made = record.call if isinstance(record, Changed) else record if isinstance(record, Call) else None
    cross = columns != ("target" if rows == "written" else rows)
    numbers = [int(word) for word in name.split(".") if word.isdecimal()]
    return {
        "name": model_title(name, call, site),
        "part": part_of(name, numbers),
        "role": "cross" if cross else "self",
        "layer": numbers[-1] if numbers else 0,
        "heads": site.heads,
        "rows": entered(axes, rows, joined_windows(site.rows)),
        "columns": entered(axes, columns, joined_windows(site.columns)),
        "kind": site.kind,
        "mechanism": "" if made is None else type(made.kernel).__name__,
        "arithmetic": site.arithmetic,
        "scale": made.kernel.factor(made.q) if made is not None and isinstance(made.kernel, Softmax) else None,
        "calls": len(site.records),
    }


def part_of(name: str, numbers: Sequence[int]) -> str:
    """Of a net: its encoder, its decoder, one of its stages."""
    part = name.partition(".")[0]
    if part == "stages":
        return f"stage {numbers[0]}"
    return part if part in ("encoder", "decoder") else ""


def joined_windows(axis: Axis) -> Axis:
    """Of windows, the whole that they were cut from."""
    cut = axis.windows
    return axis if cut is None else Axis(axis.kind, cut.grid[0] * cut.grid[1], grid=cut.grid)


def entered(axes: dict[str, dict[str, Any]], name: str, axis: Axis) -> str:
    """The name of an axis in the document; what has the same name and is another one gets a name of its own."""
    data = {
        "kind": axis.kind,
        "size": axis.size,
        "labels": None if axis.labels is None else [label.strip() or label for label in axis.labels],
        "grid": None if axis.grid is None else list(axis.grid),
        "special": axis.special,
    }
    number = 0
    while (key := name if not number else f"{name} {number}") in axes and axes[key] != data:
        number += 1
    axes[key] = data
    return key


def change_data(change: Change) -> dict[str, Any]:
    return {"kind": type(change).__name__.lower(), **asdict(change)}


# Numbers ----------------------------------------------------------------------------------------


def map_weights(found: Trace[Any], name: str) -> Tensor:
    """Of the first input, all heads: windows as one map of the whole.  -> (h, q, k)"""
    site, call = find_site(found, name)
    one = found.maps[site.name] if call == len(site.records) - 1 else site.map(call)
    return (joined_map(one) if one.rows.windows is not None else one).weights[0]


def map_sides(site: TracedSite, call: int) -> tuple[int, int]:
    """Rows and columns of a map, of windows those of the whole."""
    rows, columns = site.records[call].shape[-2:]
    return (rows, columns) if site.rows.windows is None else 2 * (joined_windows(site.rows).size,)


def map_row(found: Trace[Any], name: str, row: int) -> Tensor:
    """One row of all heads, without the others where it can be.  -> (h, k)"""
    site, call = find_site(found, name)
    if site.rows.windows is None and site.name not in found.maps.kept:
        return site.records[call].tile(slice(row, row + 1))[0, :, 0]
    return map_weights(found, name)[:, row]


def head_map(weights: Tensor, head: int | None) -> Tensor:
    """One head's map, or the mean of all.  (h, q, k) -> (q, k)"""
    if head is None:
        return weights.mean(0)
    if not 0 <= head < len(weights):
        raise InputError("head index out of range", got=str(head), expected=f"0 to {len(weights) - 1}")
    return weights[head]


def downsample(weights: Tensor, times: int) -> Tensor:
    """Each time the larger of 2 x 2 stays.  (..., q, k) -> (..., q / 2^times, k / 2^times), rounded up"""
    if not times:
        return weights
    found = F.max_pool2d(weights.reshape(-1, 1, *weights.shape[-2:]), 2**times, ceil_mode=True)
    return found.view(*weights.shape[:-2], *found.shape[-2:])


def shade_bytes(weights: Tensor) -> bytes:
    """255 times the square root of each weight; what is above 1 counts as 1."""
    return bytes((weights.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).contiguous().numpy().tobytes())


def times(rows: int, columns: int) -> int:
    """How often a map is halved until it is a thumbnail."""
    return next(n for n in range(64) if -(-max(rows, columns) // 2**n) <= SMALL)


def thumbnails(found: Trace[Any]) -> bytes:
    """Of all sites, all heads; an influence is shown as shares of its largest."""
    return b"".join(shade_bytes(thumbnail(found, name, call)) for name, call in sites(found))


def thumbnail(found: Trace[Any], name: str, call: int) -> Tensor:
    """-> (h, q, k), both at most SMALL"""
    site = found.sites[name]
    return downsampled_heads(found, model_title(name, call, site), times(*map_sides(site, call)))


def downsampled_heads(found: Trace[Any], name: str, often: int) -> Tensor:
    """All heads of a site, halved so often. A large map is made small tile by tile, and never stands in memory whole.
    -> (h, q, k)"""
    site, call = find_site(found, name)
    record, (rows, columns) = site.records[call], map_sides(site, call)
    if often and site.kind == "weights" and site.rows.windows is None and rows * columns > DENSE:
        tall = max(TALL, 2**often)
        tiles = (slice(top, min(top + tall, rows)) for top in range(0, rows, tall))
        return torch.cat([downsample(record.tile(tile)[0], often) for tile in tiles], -2)
    weights = map_weights(found, name)
    if site.kind == "influence":
        weights = weights / weights.amax((-2, -1), keepdim=True).clamp(min=1e-30)
    return downsample(weights, often)


def float32_bytes(weights: Tensor) -> bytes:
    """float32, little endian"""
    return bytes(weights.float().contiguous().numpy().astype("<f4").tobytes())


def explain_weight(found: Trace[Any], name: str, head: int, row: int, column: int) -> dict[str, Any]:
    """How one weight came about, as far as it can be told."""
    site, call = find_site(found, name)
    rows, columns = map_sides(site, call)
    for what, got, size in (("head", head, site.heads), ("row", row, rows), ("column", column, columns)):
        if not 0 <= got < size:
            raise InputError(f"{what} index out of range", got=str(got), expected=f"0 to {size - 1}")
    whole_row = map_row(found, name, row)[head]
    told = {"weights": whole_row.tolist(), "weight": float(whole_row[column])}
    if not site.arithmetic or call != len(site.records) - 1:
        return told
    found_cell = site.cell(head, row, column)
    return told | {
        "query": found_cell.query.tolist(),
        "key": found_cell.key.tolist(),
        "value": found_cell.value.tolist(),
        "product": found_cell.product,
        "scale": found_cell.scale,
        "bias": found_cell.bias,
        "score": found_cell.score,
        "masked": not found_cell.seen,
        "scores": [x if x > -torch.inf else None for x in found_cell.scores.tolist()],
        "mixed": found_cell.mixed.tolist(),
    }


def embedded_document(found: Trace[Any], about: About, before: Answer | None = None) -> dict[str, Any]:
    """The document with all of its numbers, for a file that opens by itself: maps in half precision, and the vectors of
    what can be taken apart."""
    told = document_data(found, about, before)
    maps = {site["name"]: encoded(map_weights(found, site["name"]).half()) for site in told["sites"]}
    vectors = {}
    for row in told["sites"]:
        site, call = find_site(found, row["name"])
        record = call_of(site.records[call], site.rows)
        if row["arithmetic"] and record is not None:
            parts = {"queries": record.q, "keys": record.k, "values": record.v}
            cut = site.rows.windows
            vectors[row["name"]] = {
                name: encoded((x if cut is None else unwound(x, cut))[0].float()) for name, x in parts.items()
            }
    return {"document": told, "maps": maps, "vectors": vectors, "words": WORDS}


def encoded(x: Tensor) -> str:
    """Little endian, base64"""
    raw = x.contiguous().numpy()
    return base64.b64encode(raw.astype(raw.dtype.newbyteorder("<")).tobytes()).decode()
