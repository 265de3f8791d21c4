"""A model of series, asked: for what comes next, or for an example to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError, first_of
from regard.look.examples import Example
from regard.modalities.inputs import ModelView

from .examples import series_with_times
from .forecaster import SeriesForecast, SeriesForecaster
from .processor import Series
from .reading import TimeSeries, in_range, read_series
from .times import TRAINED, numbered


def forecaster_of(model: ModelView) -> SeriesForecaster:
    if not isinstance(model.processor, Series):
        fix = "add one: dataclasses.replace(model, processor=regard.modalities.series.processor.Series(...))"
        raise InputError("this model has no series processor", fix=fix)
    return SeriesForecaster(model.net, model.processor)


def series_of(model: ModelView, given: Any) -> list[TimeSeries]:
    """All of a file; or one, of values alone."""
    how = forecaster_of(model).how
    if isinstance(given, TimeSeries):
        return [in_range(given)]
    if isinstance(given, str | Path):
        if Path(given).is_dir():
            raise InputError("the path is a folder", got=str(given), expected="a csv file")
        if not Path(given).is_file():
            raise InputError("file not found", got=str(given), expected="a csv file, or a list of numbers")
        return read_series(Path(given), how.columns, TRAINED)
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    bad = np.flatnonzero(~np.isfinite(values))
    if values.ndim != 1 or len(values) < 1 or len(bad):
        got = f"{type(given).__name__}" + (f" of shape {values.shape}" if values.size else "")
        if values.ndim == 1 and len(bad):
            got = f"value {bad[0] + 1} of {len(values)} is {values[bad[0]]:g}"
        raise InputError("the input is not a time series", got=got, expected="a csv file, or a list of finite numbers")
    return [in_range(TimeSeries("", values, numbered(len(values))))]


def forecast(model: ModelView, given: Any, steps: int | None = None) -> list[SeriesForecast]:
    """Of every series that is given."""
    forecaster = forecaster_of(model)
    return [forecaster.forecast(series, steps) for series in series_of(model, given)]


def example(model: ModelView, given: Sequence[Any]) -> Example:
    """Of a file with several series, the second word names the one to look at."""
    if len(given) not in (1, 2):
        raise InputError("expected a csv file and optionally the name of a series", got=f"{len(given)} arguments")
    series = one_of(series_of(model, given[0]), given[1] if len(given) == 2 else None)
    return series_with_times(forecaster_of(model), series)


def one_of(every: Sequence[TimeSeries], name: str | None) -> TimeSeries:
    """The series of this name; None: the only one."""
    names = [series.name for series in every]
    if name is None and len(every) > 1:
        expected = "the name of one of them: " + ", ".join(first_of(names))
        raise InputError("the file contains several series; select one by name", got=str(len(every)), expected=expected)
    if name is not None and name not in names:
        raise InputError("unknown series", got=str(name), expected=", ".join(first_of(names)))
    return every[0 if name is None else names.index(name)]
