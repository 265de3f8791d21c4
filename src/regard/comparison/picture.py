"""A comparison as a picture: time, memory, error and speed of decoding against length by ratio, and losses against
steps and against seconds."""

import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from regard import style
from regard.train.curves import panel_height, shortened, spread_heights

from .report import EXACT, MEASURES, Comparison, ComparisonRow

MARKERS = "oosD^v"
HUES = 6  # that can be told apart; then they come again with another marker and lightness
LABEL = 13.5  # points between two names
TITLES = {
    "step": "time per training step",
    "step_bytes": "peak memory per step, excluding weights",
    "error": "output error before training (exact attention: 0)",
    "written": "tokens per second, cached decoding",
}
PAIRS = (("step", "step_bytes"), ("error", "written"))  # side by side
SLOW = 5  # times as slow as the fastest: what comes later is cut off
TALL, HEAD = 2.5, 0.95  # inches of a panel with few names, and of what stands around it


@dataclass(frozen=True)
class CostCurve:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    label: str  # what is said beside it
    height: float  # where that is said
    led: bool = True  # a line leads there


@dataclass(frozen=True)
class CurveStyle:
    tint: str
    marker: str
    exact: bool


def looks(rows: Sequence[ComparisonRow]) -> dict[str, CurveStyle]:
    """Exact attention is ink; the others go around the circle of hues, each round of it lighter or darker."""
    found, others = {}, [row for row in rows if row.name != EXACT]
    for row in rows:
        if row.name == EXACT:
            found[row.name] = CurveStyle(style.INK, "o", True)
    for i, row in enumerate(others):
        turn, place = divmod(i, HUES)
        hue = 275 + 360 * place / HUES + 30 * turn
        lightness, chroma = ((0.55, 0.15), (0.7, 0.12), (0.4, 0.1))[turn % 3]
        found[row.name] = CurveStyle(style.colour(lightness, chroma, hue % 360), MARKERS[1 + turn % 5], False)
    return found


def draw(found: Comparison) -> Figure:
    rows = [row for row in found.rows if not row.reason]
    look = looks(rows)
    curves = {name: cost_curves(rows, name) for name in TITLES}
    kept = [pair for pair in PAIRS if pair == PAIRS[0] or any(curves[name] for name in pair)]
    learned = [row for row in rows if row.lesson.losses]
    heights = [panel(max(len(curves[name]) for name in pair)) + HEAD for pair in kept]
    heights += [panel(len(learned)) + HEAD] if learned and found.steps else []
    note = style.literal(summary(found))
    figure = style.page(
        style.literal(shortened(f"Attention mechanisms in {found.model}", 70)),
        note,
        height=style.head(note) + sum(heights),
    )
    panels = figure.subplots(len(heights), 2, squeeze=False, height_ratios=heights)
    for line, pair in zip(panels, kept, strict=False):
        for axes, name in zip(line, pair, strict=True):
            by_length(axes, curves[name], look, found, TITLES[name], MEASURES[name].show)
            axes.set_visible(bool(curves[name]) or pair == PAIRS[0])
    if len(heights) > len(kept):
        ends = [(x, x.loss(found.steps) or 0.0, found.equal_time(x) or 0.0) for x in learned]
        steps = [CostCurve(x.name, x.lesson.steps, x.lesson.losses, f"  {y:.3f}", y) for x, y, _ in ends]
        seconds = [CostCurve(x.name, x.lesson.seconds, x.lesson.losses, f"  {y:.3f}", y, False) for x, _, y in ends]
        losses(panels[-1, 0], steps, look, "held-out loss by training steps", "steps", found.steps)
        losses(
            panels[-1, 1], seconds, look, "held-out loss by training time", "training time in seconds", found.seconds
        )
    return figure


def summary(found: Comparison) -> str:
    threads = "one thread" if found.threads == 1 else f"{found.threads} threads"
    told = f"Forward and backward pass of one row, {threads}; exponents are fitted over all lengths."
    if found.steps:
        step = f"{found.lesson_rows} rows of {found.lesson_length:,} {found.unit} per step"
        told += f"\nLosses are on held-out data; {step}; {Path(found.data).name}."
    if found.busy:
        told += "\nThe machine was busy during the measurement: small differences may be noise."
    if found.stopped:
        told += "\nInterrupted: results are incomplete."
    return told


def cost_curves(rows: Sequence[ComparisonRow], name: str) -> list[CostCurve]:
    measure, found = MEASURES[name], []
    for row in rows:
        pairs = [(point.length, cost) for point in row.points if (cost := measure.cost(point))]
        power = row.growth(measure.cost) if measure.grows else None
        label = "" if power is None else f"  $n^{{{power:.1f}}}$"
        if pairs:
            found.append(CostCurve(row.name, [x for x, _ in pairs], [y for _, y in pairs], label, pairs[-1][1]))
    return found


def by_length(
    axes: Axes,
    curves: Sequence[CostCurve],
    look: Mapping[str, CurveStyle],
    found: Comparison,
    title: str,
    show: Callable[[float], str],
) -> None:
    axes.set_title(title)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plot(axes, curves, look)
    axes.xaxis.set_major_locator(FixedLocator(found.lengths))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    values = [y for curve in curves for y in curve.y] or [1.0]
    wide = max(values) > 100 * min(values)
    axes.yaxis.set_major_locator(LogLocator(10, (1.0,) if wide else (1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: show(y)))
    finish(axes, curves, look, found.unit)


def losses(
    axes: Axes, curves: Sequence[CostCurve], look: Mapping[str, CurveStyle], title: str, name: str, equal: float | None
) -> None:
    """With a line where all have learned for equally long."""
    axes.set_title(title)
    if equal is not None:
        axes.axvline(equal, color=style.EDGE, lw=1, ls=(0, (3, 3)))
    plot(axes, curves, look)
    longest = max((curve.x[-1] for curve in curves), default=1.0)
    axes.set_xlim(0, 1.04 * (longest if equal is None else min(longest, SLOW * equal)))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=isinstance(equal, int)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    finish(axes, curves, look, name)


def plot(axes: Axes, curves: Sequence[CostCurve], look: Mapping[str, CurveStyle]) -> None:
    """Exact attention below the others, and broad: what lies on it is still seen."""
    for curve in curves:
        own = look[curve.name]
        line = {"color": own.tint, "marker": own.marker, "lw": 3.2 if own.exact else 1.9, "ms": 5 if own.exact else 4.5}
        axes.plot(curve.x, curve.y, alpha=0.55 if own.exact else 1.0, zorder=2 if own.exact else 3, **line)  # type: ignore[arg-type]


def finish(axes: Axes, curves: Sequence[CostCurve], look: Mapping[str, CurveStyle], name: str) -> None:
    """The name of each curve at the right, as far from its neighbours as it can be read."""
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(name)
    axes.margins(x=0.04, y=0.08)
    axes.autoscale_view()
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # names and the lines to them change nothing
    ends = sorted(curves, key=lambda curve: curve.height)
    tall = 72 * panel(len(curves))
    places = spread_heights([tall * panel_height(axes, curve.height) for curve in ends], LABEL) if ends else []
    lift = max(-min(places, default=0.0), min(tall - max(places, default=0.0), 0.0))  # none below the axis or above it
    right, back = axes.get_xlim()[1], (axes.transScale + axes.transLimits).inverted()
    for curve, place in zip(ends, places, strict=True):
        tint = look[curve.name].tint
        height = float(back.transform((0.0, (place + lift) / tall))[1])
        if curve.led:
            way = [curve.x[-1], right], [curve.y[-1], height]
            axes.plot(*way, color=style.mix(tint, 0.6), lw=0.8, ls=":", clip_on=False, zorder=1)
        style.end_label(axes, right, height, curve.name + curve.label, tint, dx=4, size=9.5)


def panel(names: int) -> float:
    """Its height in inches, so that all names fit beside it."""
    return max(TALL, LABEL / 72 * (names + 1))


def rendered(found: Comparison, kind: str) -> bytes:
    raw = io.BytesIO()
    with style.font_family():
        draw(found).savefig(raw, format=kind, metadata=style.METADATA[kind])
    return raw.getvalue()


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: {ink}; font-family: system-ui, sans-serif }}
pre {{ overflow-x: auto; font-size: 0.9rem; line-height: 1.45 }}
svg {{ max-width: 100%; height: auto }}
</style>
{picture}
<pre>{table}</pre>
</html>
"""


def page(found: Comparison) -> str:
    """The picture and the table in one file, without anything from elsewhere."""
    picture = rendered(found, "svg").decode()
    title = html.escape(f"Attention mechanisms in {found.model}")
    return PAGE.format(
        title=title, ink=style.INK, picture=picture[picture.index("<svg") :], table=html.escape(str(found))
    )
