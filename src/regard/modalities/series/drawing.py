"""A picture of forecasts: what is known, the median of what comes, and the intervals around it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter
from numpy.typing import NDArray

from regard import style

from .forecaster import SeriesForecast
from .times import quantity

MOST = 8  # panels
BEFORE = 4  # times as many known values as steps, at most, are shown
LONG = 6  # letters of a time: fewer ticks
PANEL = 2.3  # inches
ALONE = 4.0  # of the only one
TOUCHING = 0.24  # inches: names that are closer would touch


def draw_forecasts(found: Sequence[SeriesForecast]) -> Figure:
    """A panel for each series; the words of the first serve all."""
    shown, first = found[:MOST], found[0]
    with style.font_family():
        note = explained(first) + (f" First {MOST} of {len(found)} series." if len(found) > MOST else "")
        note = style.wrapped(note, style.WIDTH - 0.6, 11)
        alone = len(shown) == 1
        title = first.name if alone and first.name else "Forecast"
        height = style.head(note) + (ALONE if alone else PANEL * len(shown) + 0.2)
        figure = style.page(style.literal(style.cut(title, style.WIDTH - 0.6, 20, style.SERIF)), note, height=height)
        panels = []
        for i, one in enumerate(shown):
            axes = figure.add_subplot(len(shown), 1, i + 1)
            panel(axes, one, named=not alone)
            panels.append(axes)
            below = shown[i + 1 : i + 2]
            if below and below[0].moments[-1] == one.moments[-1]:  # the month or year is told once
                axes.xaxis.get_offset_text().set_visible(False)
        tall = ALONE if alone else PANEL
        roomy = next((i for i, one in enumerate(shown) if has_room(panels[i], one, tall)), None)
        for i in sorted({0, roomy or 0}):  # the first panel, and the first that has room for the bounds
            ends(panels[i], shown[i], bounds=i == roomy)
    return figure


def explained(one: SeriesForecast) -> str:
    beyond = f" Beyond the trained horizon of {quantity(one.horizon, 'step')} (dotted line), " if is_beyond(one) else ""
    if len(one.quantiles) == 1:
        beyond = beyond and f"{beyond}the forecast continues from its own medians."
        return f"Median forecast of {quantity(len(one.moments), 'step')}, {one.series.times.spacing} apart.{beyond}"
    beyond = beyond and f"{beyond}the intervals are too narrow."
    low, high = one.quantiles[0], one.quantiles[-1]
    held = f"the interval between the quantiles {low:g} and {high:g} (nominal coverage {style.percent(high - low)})"
    steps = f"{len(one.moments)} steps ahead" if len(one.moments) > 1 else "one step ahead"
    return f"{steps[0].upper()}{steps[1:]}: the median and {held}.{beyond}"


def is_beyond(one: SeriesForecast) -> bool:
    """Steps that the model was not trained to forecast."""
    return 0 < one.horizon < len(one.moments)


def panel(axes: Axes, one: SeriesForecast, *, named: bool) -> None:
    values, times = one.series.values, one.series.times
    many = min(len(values), max(BEFORE * len(one.moments), 24))
    known, past = values[-many:], places(times.moments[-many:])
    future = np.concatenate((past[-1:], places(one.moments)))
    told = np.concatenate((np.full((1, len(one.quantiles)), known[-1]), one.values))  # all begin at what is known
    half = len(one.quantiles) // 2
    for i in range(half):
        wash = style.mix(style.WEIGHT, 0.14 + 0.16 * i)
        axes.fill_between(future, told[:, i], told[:, -1 - i], color=wash, lw=0, zorder=1)
    axes.plot(past, known, color=style.INK, lw=1.6, zorder=3)
    axes.plot(future, told[:, one.quantiles.index(0.5)], color=style.WEIGHT, lw=2.2, zorder=4)
    axes.axvline(past[-1], color=style.EDGE, lw=0.8, ls=(0, (3, 3)), zorder=2)
    if is_beyond(one):
        axes.axvline(future[one.horizon], color=style.EDGE, lw=1.2, ls=(0, (1, 2)), zorder=2)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlim(past[0], future[-1])
    axes.margins(y=0.12)
    axes.locator_params(axis="y", nbins=5)
    if isinstance(one.moments[0], datetime):
        locator = AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis_date()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        plain_numbers(axes, "x", axes.get_xlim())
        if len(one.times[-1]) > LONG:
            axes.locator_params(axis="x", nbins=5)
    plain_numbers(axes, "y", axes.get_ylim())
    if named:
        axes.set_title(style.literal(one.name))


def plain_numbers(axes: Axes, which: Literal["x", "y"], limits: tuple[float, float]) -> None:
    """Each tick is a whole number of its own: no offset or power of ten stands apart, where it may touch a title."""
    if 1e-3 <= max(map(abs, limits)) < 1e15:
        axes.ticklabel_format(axis=which, style="plain", useOffset=False)
    else:
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_formatter(lambda x, _: Formatter.fix_minus(f"{x:.6g}"))


def ends(axes: Axes, one: SeriesForecast, *, bounds: bool) -> None:
    """The names of the curves beside their ends: of the median, and of both bounds of the interval or none."""
    x, last = float(places(one.moments[-1:])[0]), one.values[-1]
    style.end_label(axes, x, float(one.median[-1]), "median", style.WEIGHT)
    for i in (0, -1) if bounds else ():
        style.end_label(axes, x, float(last[i]), f"{one.quantiles[i]:g}", style.mix(style.WEIGHT, 0.62), size=10)


def has_room(axes: Axes, one: SeriesForecast, height: float) -> bool:
    """For the names of both bounds: neither touches the median's. The height is the panel's, in inches."""
    low, high = axes.get_ylim()
    return min(abs(float(one.values[-1, i] - one.median[-1])) for i in (0, -1)) > TOUCHING / height * (high - low)


def places(moments: Sequence[object]) -> NDArray[np.float64]:
    """As matplotlib counts dates: days; numbers as they are. Dates with a zone are shown in it."""
    if isinstance(moments[0], datetime):
        plain = [x.replace(tzinfo=None) for x in moments if isinstance(x, datetime)]
        return np.asarray(date2num(plain))  # type: ignore[no-untyped-call]
    return np.asarray(moments, np.float64)
