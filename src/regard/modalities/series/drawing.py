"""A picture of forecasts: what is known, the median of what comes, and the intervals around it."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard import style

from .forecaster import SeriesForecast

MOST = 8  # panels
BEFORE = 4  # times as many known values as steps, at most, are shown
PANEL = 2.3  # inches
TOUCHING = 0.06  # of a panel's height: names that are closer would touch


def draw_forecasts(found: Sequence[SeriesForecast]) -> Figure:
    """A panel for each series; the words of the first serve all."""
    shown, first = found[:MOST], found[0]
    with style.font_family():
        note = explained(first) + (f" First {MOST} of {len(found)} series." if len(found) > MOST else "")
        note = style.wrapped(note, style.WIDTH - 0.6, 11)
        alone = len(shown) == 1
        title = first.name if alone and first.name else "Forecast"
        height = style.head(note) + (4.0 if alone else PANEL * len(shown) + 0.2)
        figure = style.page(style.literal(style.cut(title, style.WIDTH - 0.6, 20, style.SERIF)), note, height=height)
        for i, one in enumerate(shown):
            axes = figure.add_subplot(len(shown), 1, i + 1)
            panel(axes, one, named=not alone)
            if i == 0:
                ends(axes, one, bounds=alone)
            below = shown[i + 1 : i + 2]
            if below and below[0].moments[-1] == one.moments[-1]:  # the month or year is told once
                axes.xaxis.get_offset_text().set_visible(False)
    return figure


def explained(one: SeriesForecast) -> str:
    if len(one.quantiles) == 1:
        return f"Median forecast of {len(one.moments)} steps, {one.series.times.spacing} apart."
    low, high = one.quantiles[0], one.quantiles[-1]
    held = f"the interval between the quantiles {low:g} and {high:g} (nominal coverage {style.percent(high - low)})"
    steps = f"{len(one.moments)} steps ahead" if len(one.moments) > 1 else "one step ahead"
    return f"{steps[0].upper()}{steps[1:]}: the median and {held}."


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
    if named:
        axes.set_title(style.literal(one.name))


def ends(axes: Axes, one: SeriesForecast, *, bounds: bool) -> None:
    """The names of the curves beside their ends; those of the interval only where they do not touch the median's."""
    low, high = axes.get_ylim()
    x, last, median = float(places(one.moments[-1:])[0]), one.values[-1], float(one.median[-1])
    style.end_label(axes, x, median, "median", style.WEIGHT)
    for i in (0, -1) if bounds else ():
        if abs(float(last[i]) - median) > TOUCHING * (high - low):
            style.end_label(axes, x, float(last[i]), f"{one.quantiles[i]:g}", style.mix(style.WEIGHT, 0.62), size=10)


def places(moments: Sequence[object]) -> NDArray[np.float64]:
    """As matplotlib counts dates: days; numbers as they are. Dates with a zone are shown in it."""
    if isinstance(moments[0], datetime):
        plain = [x.replace(tzinfo=None) for x in moments if isinstance(x, datetime)]
        return np.asarray(date2num(plain))  # type: ignore[no-untyped-call]
    return np.asarray(moments, np.float64)
