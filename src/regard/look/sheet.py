"""All heads of a trace on one page: a row for each site, a map for each head.

Every map has the same scale, so that heads can be compared; what has no weights (an influence) is shown as shares of
its own largest, which its row says.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .document import downsample, map_weights, model_title, times
from .trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, GAP, EDGE = 1.15, 0.1, 0.3  # inches of a map's longer side, between two, and at the border
NAME = 10.5  # points
MOST = 16  # heads of a row; the others are counted
TALLEST = 60  # rows of a page


def all_heads(found: Trace[Any], headline: str, note: str) -> "Figure":
    from regard import style

    rows = [(model_title(name, i, site), site) for name, site in found.sites.items() for i in range(len(site.records))]
    left_out = len(rows) - TALLEST
    rows = rows[:TALLEST]
    several = [small(map_weights(found, name), site.kind) for name, site in rows]
    heads = min(max(len(maps) for maps in several), MOST)
    highs = [SIDE * maps.shape[-2] / max(maps.shape[-2:]) for maps in several]
    beside = EDGE + max(style.breadth(name, NAME) for name, _ in rows) + 0.25  # for the names on the left
    width = max(beside + heads * (SIDE + GAP) + EDGE, 7.0)
    if left_out > 0:
        note += f" First {TALLEST} of {TALLEST + left_out} sites."
    said = "\n".join(style.wrapped(line, width - 0.6, 11) for line in note.splitlines())
    top = style.head(said) + 0.3
    height = top + sum(highs) + GAP * len(rows) + 0.3
    figure = style.page(
        style.literal(style.cut(headline, width - 0.6, 20, style.SERIF)),
        style.literal(said),
        height=height,
        width=width,
    )
    figure.set_layout_engine("none")
    y = height - top
    for (name, site), maps, high in zip(rows, several, highs, strict=True):
        y -= high
        figure.text(0.3 / width, (y + high / 2) / height, name, size=NAME, va="center")
        if site.kind == "influence":
            figure.text(
                0.3 / width, (y + high / 2 - 0.18) / height, "influence", size=8.5, va="center", color=style.SOFT
            )
        for head, weights in enumerate(maps[:MOST]):
            x, wide = beside + head * (SIDE + GAP), SIDE * maps.shape[-1] / max(maps.shape[-2:])
            axes = figure.add_axes((x / width, y / height, wide / width, high / height))
            axes.imshow(
                weights.sqrt().numpy(), cmap=style.WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
            )
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set(color=style.LINE, linewidth=0.8)
            if name == rows[0][0]:
                axes.set_title(f"head {head}", size=9.5, color=style.SOFT, pad=3)
        y -= GAP
    return figure


def small(weights: Tensor, kind: str) -> Tensor:
    """(h, q, k) -> a thumbnail of each head, 0 to 1"""
    if kind == "influence":
        weights = weights / weights.amax((-2, -1), keepdim=True).clamp(min=1e-30)
    return downsample(weights, times(*weights.shape[-2:])).clamp(0, 1).float()


def position_names(labels: Sequence[str] | None, size: int) -> list[str]:
    """Of positions that have no words, their numbers."""
    return [label.strip() or "·" for label in labels] if labels is not None else [str(i) for i in range(size)]
