"""What the run files of all series say alike: how windows are cut, and how they are scaled."""

from collections.abc import Sequence
from typing import Any

from regard.errors import InputError, first_of
from regard.modalities.run_parts import OpenedData, RunPlan
from regard.modalities.series.processor import Series, scale_of
from regard.modalities.series.reading import SeriesColumns, TimeSeries
from regard.modalities.series.windows import WindowLayout, split_points, split_series
from regard.nn.config import not_above_zero, not_at_least, not_positive

WINDOW = "context length: number of past values in a window"
HORIZON = "forecast horizon: number of future steps"
LEAST = "minimum number of past values; shorter windows are padded; 0: half of the window"
SHARE = "fraction of each series to hold out for validation after train, and again for test at its end"
STRIDE = "stride: steps between training windows"
ROLLING = "steps between evaluation windows; 0: the horizon, so that each value is forecast once"
PERIOD = "seasonal period in steps, such as 24 for hourly data, for the seasonal baseline; 0: none"
SCALING = "normalisation: window (mean and deviation of each window) or train (those of each series' training part)"
BATCH = "batch size in windows"


def not_cut(data: Any) -> list[str]:
    """For a [data] table: what cannot be."""
    wrong = not_positive(data, "window", "horizon", "stride", "batch") + not_at_least(
        0, data, "least", "rolling", "period"
    )
    wrong += not_above_zero(data, "share")
    if data.share is not None and data.share >= 0.5:
        wrong += [f"share = {data.share} leaves no training data: held-out and test data take this fraction each"]
    if None not in (data.least, data.window) and data.least > data.window:
        wrong += [f"least = {data.least} is above window = {data.window}"]
    return wrong


def cut_of(data: Any) -> WindowLayout:
    least = data.least or max(data.window // 2, 1)
    rolling = data.rolling or data.horizon
    return WindowLayout(data.window, data.horizon, least, data.share, data.stride, rolling, data.period)


def opened(plan: RunPlan, series: Sequence[TimeSeries], columns: SeriesColumns) -> OpenedData:
    """Every part of every series, and what is known of the processor; scales are those of train alone."""
    data, cut = plan.data, cut_of(plan.data)
    spacings = list(dict.fromkeys(str(one.times.spacing) for one in series))
    dated = len(spacings) == 1 and series[0].times.spacing.unit != "number"  # a plain number has no unit to compare
    scales = {}
    if data.scaling == "train":
        if len({one.name for one in series}) < len(series):
            raise InputError("series names must be unique with data.scaling = 'train'", where="data.files")
        for one in series:
            scale = scale_of(one.values[: split_points(one, cut)[0]])
            scales[one.name] = (scale.level, scale.spread)
    how = Series(data.window, data.scaling, scales, spacings[0] if dated else "", columns)
    splits = split_series(series, cut, how)
    still = [one.name for one in series if not scale_of(one.values[: split_points(one, cut)[0]]).spread]
    if len(still) == len(series):
        files = list(dict.fromkeys(one.file for one in series))
        raise InputError(
            "all series are constant in their training part: there is nothing to learn",
            where=", ".join(first_of(files, 3)),
            got=", ".join(first_of(still, 3)),
            expected="at least one series whose values change",
        )
    return OpenedData(splits, prepared=how, notes=notes(series, spacings, cut, still))


def notes(
    series: Sequence[TimeSeries], spacings: Sequence[str], cut: WindowLayout, still: Sequence[str]
) -> tuple[str, ...]:
    values = sum(map(len, series))
    told = [f"{len(series):,} series with {values:,} values; spacing: {' or '.join(spacings[:3])}"]
    if still:
        told.append(f"constant series, which do not contribute to training: {', '.join(first_of(still, 3))}")
    short = sum(split_points(one, cut)[0] < cut.window + cut.horizon for one in series)
    if short:
        told.append(f"{short:,} series are shorter in train than window + horizon: their windows are padded")
    return tuple(told)
