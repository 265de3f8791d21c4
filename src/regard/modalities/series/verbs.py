"""What can be asked of a model of series."""

from regard.modalities.verb import Verb

FORECAST = Verb(
    "forecast",
    "Forecast the next values of the time series in a csv file: medians and intervals; optionally draw them.",
    {"series": "regard.modalities.series.runners:forecast"},
    answers={"series": "regard.modalities.series.forecaster:SeriesForecast"},
    views={"series": "regard.modalities.series.views:FORECASTS"},
    command="regard.cli.forecast:run",
    cannot="cannot forecast",
    use="forecaster-small, series-lstm or series-linear",
    examples={"series": "regard.modalities.series.runners:example"},
)
