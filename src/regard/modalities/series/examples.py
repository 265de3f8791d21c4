"""A series as an example to look at: its window, with times on the axes of all maps.

Shapes: m steps ahead, k quantiles.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.look.examples import Example

from .forecaster import SeriesForecast, SeriesForecaster
from .reading import TimeSeries
from .times import quantity


@dataclass(frozen=True, eq=False)
class ForecastAnswer:
    """What comes next: an answer of its own kind (``look.answers``)."""

    forecast: SeriesForecast

    def data(self) -> dict[str, Any]:
        return {"kind": "forecast", **self.forecast.data()}

    def headline(self) -> str:
        median, name = self.forecast.median, f"{self.forecast.name}: " if self.forecast.name else ""
        return f"{name}{median[0]:.4g} next, {median[-1]:.4g} in {quantity(len(median), 'step')}"

    def subject(self) -> str:
        return f"the forecast from {self.forecast.times[0]} on"


def series_with_times(forecaster: SeriesForecaster, series: TimeSeries) -> Example:
    values, scale = forecaster.context(series, series.values)
    config, times = forecaster.config, series.times
    known = [times.text(moment) for moment in times.moments[-values.shape[1] :]]
    coming = times.after(config.horizon)

    def tell(output: Tensor) -> ForecastAnswer:
        found = scale.back(output[0].sort(-1).values.double().cpu().numpy())
        return ForecastAnswer(SeriesForecast(series, coming, config.quantiles, found))

    def record() -> dict[str, Any]:
        shown = series.values[-values.shape[1] :]
        return {"kind": "series", "name": series.name, "times": known, "values": shown.tolist()}

    words = {"past": tuple(known), "future": tuple(times.text(moment) for moment in coming)}
    return Example((values,), tell, ("series",), record, words=words)
