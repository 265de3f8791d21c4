"""The curves of a run, drawn from its journal: `curves.svg` and `curves.png`.

A line of the journal is one of two kinds: {"step": 10, "loss": 3.1, "rate": 5e-4, "norm": 1.2} says how training went
since the line before, {"step": 100, "held_out": {"loss": 3.2, "bleu": 12.0}} what was measured on other data.
"""

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from regard import style
from regard.errors import InputError

Numbers = NDArray[np.float64]

BESIDE = ("rate", "norm")  # by what training goes on, not how well
ROUND = (1, 2, 2.5, 5, 10)  # ticks are multiples of these
POINTS = 1500  # of one curve: more cannot be told apart in a picture of this width
SMALL = 9  # small panels at most
LARGE, LITTLE, LOW = 4.0, 1.75, 1.5  # heights of panels in inches, with titles and ticks
LEFT, RIGHT, GAP = 0.75, 0.4, 0.7  # inches before, after and between panels
LABELS = 1.35  # inches for the names of the large panel's curves


@dataclass(frozen=True, eq=False)
class Curve:
    table: str  # "" for training
    name: str
    steps: Numbers
    values: Numbers

    @property
    def kind(self) -> str:
        """With several optimizers the names of rates and norms begin with the part's: critic.rate"""
        return self.name.rpartition(".")[2]

    @property
    def beside(self) -> bool:
        return not self.table and self.kind in BESIDE

    @property
    def noisy(self) -> bool:
        return not self.table and self.kind != "rate" and len(self.steps) >= 20

    @cached_property
    def line(self) -> Numbers:
        return smooth(self.values) if self.noisy else self.values

    @property
    def label(self) -> str:
        return shortened(self.table.replace("_", " ") or "training", 12)

    @property
    def tint(self) -> str:
        return style.SECOND if self.table else style.SOFT if self.beside else style.WEIGHT


def draw(lines: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write both pictures into a run's folder, each whole or not at all."""
    folder = Path(folder)
    with style.font_family():
        picture = page(curves_of(lines), folder.resolve().name)
        for kind in ("svg", "png"):
            raw = io.BytesIO()
            picture.savefig(raw, format=kind, metadata=style.METADATA[kind])
            write(folder / f"curves.{kind}", raw.getvalue())


def write(path: Path, raw: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(raw)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise InputError(
            "the training curves could not be written; the previous ones are unchanged",
            where=str(path),
            got=error.strerror or str(error),
            expected=f"a writable location with {len(raw)} bytes free",
        ) from error


def curves_of(lines: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Every number over its step, training first; what was not finite is left out."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in lines:
        step = line.get("step")
        if not is_number(step):
            continue
        tables = {name: table for name, table in line.items() if isinstance(table, dict)}
        for name, table in {"": line, **tables}.items():
            for key, value in table.items():
                if is_number(value) and key not in ("step", "epoch"):
                    found.setdefault((name, key), []).append((step, value))
    points = {place: np.array(pairs, float).T for place, pairs in found.items()}
    return [Curve(*place, x, y) for place, (x, y) in sorted(points.items(), key=lambda item: bool(item[0][0]))]


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)


# The page ----------------------------------------------------------------------------------------


def page(curves: Sequence[Curve], title: str) -> Figure:
    """One large panel for the loss, small ones for what else was measured, low ones for rates and gradients."""
    loss = main([curve for curve in curves if not curve.beside])
    others: dict[str, list[Curve]] = {}
    for curve in curves:
        if curve not in loss and not curve.beside:
            others.setdefault(curve.name, []).append(curve)
    beside = sorted((curve for curve in curves if curve.beside), key=lambda curve: BESIDE.index(curve.kind))
    rows = [*in_rows(LITTLE, list(others.values())[:SMALL]), *in_rows(LOW, [[curve] for curve in beside])]
    note = summary(loss) + (
        f"  {len(others) - SMALL} more metrics are in metrics.jsonl." if len(others) > SMALL else ""
    )
    y = (LARGE if loss else 0.0) + sum(row.height for row in rows)
    figure = style.page(shortened(title, 70), note, height=style.head(note) + y)
    figure.set_layout_engine("none")  # counted by hand all panels stand in line, and it takes half the time
    for text in figure.texts:
        text.set_parse_math(False)  # a $ in a name is no mathematics
    last = max((curve.steps[-1] for curve in curves), default=1.0)
    if loss:
        y -= LARGE
        large(panel(figure, LEFT, y + 0.2, style.WIDTH - LEFT - RIGHT - LABELS, LARGE - 0.2), loss, last)
    for row in rows:
        y -= row.height
        width = (style.WIDTH - LEFT - RIGHT + GAP) / row.across
        for column, alike in enumerate(row.panels):
            little(panel(figure, LEFT + column * width, y, width - GAP, row.height), alike, last)
    return figure


@dataclass(frozen=True)
class PanelRow:
    height: float
    across: int  # places for panels; the last row may have fewer panels
    panels: list[list[Curve]]


def in_rows(height: float, panels: list[list[Curve]]) -> list[PanelRow]:
    across = len(panels) if len(panels) <= 4 else 3
    return [PanelRow(height, across, panels[i : i + across]) for i in range(0, len(panels), across or 1)]


def panel(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """A place in inches, with room for ticks below and for a title above."""
    wide, tall = figure.get_size_inches()
    return figure.add_axes((x / wide, (y + 0.42) / tall, width / wide, (height - 0.78) / tall))


def main(curves: Sequence[Curve]) -> list[Curve]:
    """What the large panel shows: the loss (or a task's first term, if none has this name), and held out the same."""
    names = [curve.name for curve in curves if not curve.table] or [curve.name for curve in curves]
    name = "loss" if "loss" in names else names[0] if names else ""
    also = name if "loss" in names else "loss"
    return [curve for curve in curves if curve.name == name or (curve.table and curve.name == also)]


def summary(loss: Sequence[Curve]) -> str:
    """The last of each, and the best of what is held out, in one line."""
    if not loss:
        return "Nothing has been recorded yet."
    last = ", ".join(f"{curve.label} {short(curve.line[-1])}" for curve in loss)
    text = f"After {max(curve.steps[-1] for curve in loss):,.0f} steps: {last}"
    for curve in loss:
        if curve.table and len(curve.steps) > 1:
            best = int(curve.values.argmin())
            text += f"; best {curve.label} {short(curve.values[best])}, at step {curve.steps[best]:,.0f}"
    return shortened(text, 120) + "."


# Panels ------------------------------------------------------------------------------------------


def large(axes: Axes, curves: Sequence[Curve], last: float) -> None:
    for curve in curves:
        plot(axes, curve, 2.2)
        if curve.table and len(curve.steps) > 1:  # a ring around the best
            best = int(curve.values.argmin())
            place = {"marker": "o", "ms": 8, "mfc": "white", "mec": curve.tint, "mew": 1.8, "clip_on": False}
            axes.plot(curve.steps[best], curve.values[best], **place)  # type: ignore[arg-type]
    frame(axes, curves, last)
    axes.set_title(shortened(curves[0].name, 60), loc="left", parse_math=False)
    axes.set_xlabel("step")
    tall = axes.get_window_extent().height * 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    ends = sorted(curves, key=lambda curve: curve.line[-1])
    heights = [tall * panel_height(axes, curve.line[-1]) for curve in ends]
    for curve, is_at, goes_to in zip(ends, heights, spread_heights(heights, 16.0), strict=True):
        text = f"{curve.label} {short(curve.line[-1])}"
        style.end_label(axes, last, curve.line[-1], text, curve.tint, dy=goes_to - is_at, size=10)


def little(axes: Axes, curves: Sequence[Curve], last: float) -> None:
    for curve in curves:
        plot(axes, curve, 1.5)
    frame(axes, curves, last)
    axes.set_title(shortened(curves[0].name, 24), loc="left", size=10.5, pad=7, parse_math=False)
    axes.set_title(short(curves[-1].line[-1], 3), loc="right", size=10.5, pad=7, color=curves[-1].tint)
    axes.tick_params(labelsize=9)


def plot(axes: Axes, curve: Curve, width: float) -> None:
    """Training is noisy: a smooth line over its faint numbers. What is held out has few points, and each is seen."""
    if curve.noisy:
        axes.plot(*thinned(curve.steps, curve.values), color=style.mix(curve.tint, 0.28), lw=0.8)
    marker = "o" if len(curve.steps) == 1 or (curve.table and len(curve.steps) <= 40) else ""
    x, y = thinned(curve.steps, curve.line)
    axes.plot(x, y, color=curve.tint, lw=width, marker=marker, ms=2.2 * width, clip_on=curve.noisy)


def frame(axes: Axes, curves: Sequence[Curve], last: float) -> None:
    """Limits, scale and grid. One wild number must not flatten the rest; what falls far is shown by ratio."""
    ranges = [np.quantile(x.values, (0.005, 0.995)) if x.noisy else x.values for x in curves]
    seen = np.concatenate([*ranges, *(x.line[[0, -1]] for x in curves)])
    bottom, top = float(seen.min()), float(seen.max())
    if bottom > 0 and top > 30 * bottom and not curves[0].beside:
        axes.set_yscale("log")
        axes.set_ylim(bottom / 1.15, top * 1.15)
        axes.yaxis.set_major_locator(LogLocator(10, (1.0, 3.0) if top < 1e3 * bottom else (1.0,), numticks=6))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        room = 0.05 * (top - bottom) or 0.1 * abs(top) or 1.0
        axes.set_ylim(max(0.0, bottom - room) if bottom >= 0 else bottom - room, top + room)
        axes.yaxis.set_major_locator(MaxNLocator(5 if axes.get_window_extent().height > 200 else 3, steps=ROUND))
    axes.set_xlim(0, last or 1.0)
    axes.xaxis.set_major_locator(
        MaxNLocator(max(2, int(axes.get_window_extent().width / 130)), integer=True, steps=ROUND)
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: short(y)))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


# Numbers -----------------------------------------------------------------------------------------


def smooth(values: Numbers) -> Numbers:
    """A mean over a fortieth of the curve around each point. At the start, where it falls steeply, no more of what
    comes after than of what came before; at the end all that came before, or the last number would be a raw one."""
    here = np.arange(len(values))
    before = np.minimum(here, max(1, len(values) // 80))
    after = np.minimum(before, here[::-1])
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[here + after + 1] - sums[here - before]) / (before + after + 1)


def thinned(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """The smallest and the largest of each stretch, and both ends: it looks like the whole."""
    if len(x) <= POINTS:
        return x, y
    stretches = np.array_split(np.arange(len(x)), POINTS // 2)
    kept = [place[at] for place in stretches for at in (y[place].argmin(), y[place].argmax())]
    chosen = np.unique([0, *kept, len(x) - 1])
    return x[chosen], y[chosen]


def panel_height(axes: Axes, y: float) -> float:
    """How high a value stands in its panel: 0 at the bottom, 1 at the top."""
    return float(axes.transLimits.transform(axes.transScale.transform((0.0, y)))[1])


def spread_heights(heights: Sequence[float], least: float) -> list[float]:
    """Rising heights, moved about their middle so that no two are closer than this."""
    moved = list(heights)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + least)
    shift = (sum(heights) - sum(moved)) / len(moved)
    return [height + shift for height in moved]


def short(value: float, digits: int = 4) -> str:
    """Few digits that all count: 2.114, 4.5e−4, 50,530"""
    if abs(value) >= 1e7 or 0 < abs(value) < 1e-3:
        first, exponent = f"{value:.2e}".split("e")
        text = f"{float(first):g}e{int(exponent)}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
